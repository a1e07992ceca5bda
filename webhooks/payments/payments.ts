import { hash } from 'node:crypto';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import type { Needs } from '../../engine/definition/index.ts';
import { errors, HttpError } from '../../engine/errors.ts';
import { ExactNumber, parseTimestamp } from '../../engine/fields/index.ts';
import { json } from '../../engine/http/index.ts';
import type { Module } from '../../engine/modules/index.ts';
import { type Body, readBody } from '../../engine/records/index.ts';
import { type Tables, tablesOf, transaction } from '../../engine/tables/index.ts';
import {
  convertLead,
  findLead,
  findOrganization,
  indexable,
  type LeadTraits,
  ownProperty,
  type Partner,
  partnerRecords,
  signedWith,
  type WebhookServices,
  type Webhooks,
} from '../endpoint/index.ts';
import { type Payment, withoutTexts } from '../settings/index.ts';
import { paymentsTables } from './tables.ts';

/** A payment, read from the payload by its customer's entry in config.yaml. */
interface Paid {
  readonly eventId: string;
  readonly lead: LeadTraits;
  readonly opportunity: Body;
}

const text = { types: ['string', 'text'], writable: true } as const;
/** The fields that payment hooks find leads by and write. */
const needs: readonly Needs[] = [
  {
    file: 'webhooks/payments (partners.payments in config.yaml)',
    resource: 'leads',
    fields: {
      email: { types: ['string'], lookup: 'caseless' },
      phone: { types: ['string'], lookup: 'digits' },
      status: { types: ['string'] },
    },
  },
  {
    file: 'webhooks/payments (partners.payments in config.yaml)',
    resource: 'opportunities',
    fields: {
      name: text,
      amount: { types: ['number'], writable: true },
      stage: text,
      probability: { types: ['integer', 'int64', 'number'], writable: true },
      close_date: { types: ['timestamp'], writable: true },
      description: text,
    },
  },
];

/** The last part of a customer's address. */
export const hookOf = (customer: string): string => `${customer}-payment`;
/** The customer of a hook; `''` if it has none. */
export const customerOf = (hook: string): string => /^(.+)-payment$/.exec(hook)?.[1] ?? '';
export const paymentPath = (hook: string): string => `/webhooks/${hook}`;

/** POST /webhooks/<customer>-payment, one for each entry in config.yaml. */
export function payments(app: FastifyInstance, webhooks: Webhooks): void {
  const { settings, database, used, wrong } = webhooks;
  const entryOf = (request: FastifyRequest) => {
    const { hook } = request.params as { hook: string };
    const customer = customerOf(hook);
    const entry = ownProperty(settings.current.partners.payments, customer);
    if (entry === undefined) throw errors.notFound();
    return { customer, entry };
  };
  app.route<{ Params: { hook: string } }>({
    url: paymentPath(':hook'),
    method: ['POST', 'GET', 'PUT', 'PATCH', 'DELETE'],
    onRequest: async (request) => {
      const { entry } = entryOf(request);
      if (request.method !== 'POST') throw errors.methodNotAllowed('POST');
      if (entry.verify.secrets.length === 0) throw errors.notConfigured();
    },
    handler: async (request, reply) => {
      const { customer, entry } = entryOf(request);
      const raw = Buffer.isBuffer(request.body) ? request.body : Buffer.alloc(0);
      reply.header('content-type', json).header('cache-control', 'no-store');
      if (isPing(entry, request, raw)) return '{"ok":true}';
      const { scheme = 'key', header, secrets } = entry.verify;
      const given = request.headers[header.toLowerCase()];
      const now = Date.now() / 1000;
      if (typeof given !== 'string') throw errors.unauthenticated();
      const secret = signedWith(scheme, secrets, { header: given, raw, now });
      if (secret === undefined) throw await wrong.refusal(request, paymentPath(hookOf(customer)));
      used.record(`payments.${customer}`, secret);
      const payload = withoutTexts(readBody(request.headers['content-type'], raw));
      if (!isWanted(entry, payload)) return '{"ok":true,"ignored":true}';
      const paid = read(entry, payload, request, raw);
      const organization = await findOrganization(tablesOf(database), entry.organization);
      if (organization === undefined) throw errors.notFound();
      const partner = { organization, requestId: request.id };
      return transaction(database, (tables) => apply(tables, webhooks, partner, customer, paid, raw));
    },
  });
}

/** WooCommerce announces a new webhook with an unsigned form, which is acknowledged and ignored. */
function isPing({ verify }: Payment, { headers }: FastifyRequest, raw: Buffer): boolean {
  return (
    verify.header.toLowerCase() === 'x-wc-webhook-signature' &&
    headers[verify.header.toLowerCase()] === undefined &&
    /^application\/x-www-form-urlencoded/i.test(headers['content-type'] ?? '') &&
    raw.length < 40 &&
    /^webhook_id=\d+$/.test(raw.toString('latin1'))
  );
}

const isWanted = ({ when = {}, evaluate }: Payment, payload: Body): boolean =>
  Object.entries(when).every(([expression, values]) => values.includes(evaluate(expression, payload)));

/** @throws HttpError 400 if the amount is not a number */
function read(entry: Payment, payload: Body, request: FastifyRequest, raw: Buffer): Paid {
  const { lead = {}, opportunity = {}, event_id, event_id_header, evaluate } = entry;
  const inHeader = event_id_header && request.headers[event_id_header.toLowerCase()];
  const named = typeof inHeader === 'string' ? inHeader : evaluate(event_id, payload);
  const currency = storable(evaluate(opportunity.currency, payload)).toUpperCase();
  const amount = decimal(evaluate(opportunity.amount, payload), opportunity.minor_units === true, currency);
  const name = evaluate(opportunity.name, payload);
  return {
    eventId: eventIdOf(named, raw),
    lead: {
      id: evaluate(lead.id, payload),
      email: storable(evaluate(lead.email, payload)),
      phone: storable(evaluate(lead.phone, payload)),
    },
    opportunity: {
      name: storable(name) || 'Payment',
      amount: new ExactNumber(amount),
      stage: 'Closed Won',
      probability: 100,
      close_date: closeDate(evaluate(opportunity.close_date, payload)),
      description: currency === '' ? '' : `Paid in ${currency}.`,
    },
  };
}

/** The event's id in a form that fits into an index; the body's digest if it has none. */
function eventIdOf(named: string, raw: Buffer): string {
  return indexable(named) || hash('sha256', raw, 'hex');
}

/** Leaves out characters that PostgreSQL cannot store: a payment must not fail because of them. */
const storable = (text: string): string => text.slice(0, 1000).toWellFormed().replaceAll('\0', '');

/** Decimal text; minor units (cents) become major ones without rounding. */
function decimal(text: string, minor: boolean, currency: string): string {
  if (text === '') return '0';
  const match = /^(-?)(\d{1,30})(?:\.(\d{1,30}))?$/.exec(text);
  if (match === null) throw new HttpError(400, 'the amount is no number');
  const [, sign = '', whole = '', fraction = ''] = match;
  if (!minor) return text;
  const places = fractionDigits(currency);
  const digits = whole.padStart(places + 1, '0');
  const split = digits.length - places;
  const rest = `${digits.slice(split)}${fraction}`;
  return `${sign}${digits.slice(0, split)}${rest === '' ? '' : `.${rest}`}`;
}

/** The number of digits of a currency's minor unit (ISO 4217): 2, but 0 for JPY and 3 for KWD. */
function fractionDigits(currency: string): number {
  try {
    const format = new Intl.NumberFormat('en', { style: 'currency', currency: currency || 'USD' });
    return format.resolvedOptions().maximumFractionDigits ?? 2;
  } catch {
    return 2;
  }
}

/** RFC 3339 text, or seconds since 1970; the time of receipt for anything else. */
function closeDate(text: string): string {
  if (/^\d{9,11}$/.test(text)) return new Date(Number(text) * 1000).toISOString();
  return parseTimestamp(text) === undefined ? new Date().toISOString() : text;
}

const unmatched = '{"ok":true,"matched":false';

/** Claims the event, converts the lead and opens the opportunity: all in one transaction, once for each event. */
async function apply(
  tables: Tables,
  { resources }: Webhooks,
  partner: Partner,
  customer: string,
  { eventId, lead, opportunity }: Paid,
  raw: Buffer,
): Promise<string> {
  const claim = await tables
    .insertInto('crm_payment_events')
    .values({
      organization_id: partner.organization,
      customer,
      event_id: eventId,
      answer: null,
      payload: storable(raw.toString('utf8')),
    })
    // Of two concurrent deliveries the second waits here for the first.
    .onConflict((conflict) => conflict.columns(['organization_id', 'customer', 'event_id']).doNothing())
    .returning('id')
    .executeTakeFirst();
  if (claim === undefined) {
    const known = await tables
      .selectFrom('crm_payment_events')
      .select('answer')
      .where('organization_id', '=', partner.organization)
      .where('customer', '=', customer)
      .where('event_id', '=', eventId)
      .executeTakeFirstOrThrow();
    return `${known.answer ?? unmatched},"duplicate":true}`;
  }
  const records = partnerRecords(tables, resources, partner);
  const leadId = await findLead(records, lead);
  if (leadId === undefined) return `${unmatched}}`;
  await convertLead(records, leadId);
  const opportunityId = await records.create('opportunities', opportunity);
  // Ids are JSON integers, written without rounding.
  const response = `{"ok":true,"lead_id":${leadId},"opportunity_id":${opportunityId}`;
  await tables
    .updateTable('crm_payment_events')
    .set({ answer: response })
    .where('organization_id', '=', partner.organization)
    .where('id', '=', claim.id)
    .execute();
  return `${response}}`;
}

/** A payment whose lead was not found. */
export interface UnmatchedPayment {
  readonly customer: string;
  readonly eventId: string;
  readonly payload: string;
  readonly receivedAt: Date;
}

/** The unmatched payments of an organization, newest first. */
export async function unmatchedPayments(
  tables: Tables,
  organization: string,
  limit: number,
): Promise<UnmatchedPayment[]> {
  const rows = await tables
    .selectFrom('crm_payment_events')
    .select(['customer', 'event_id', 'payload', 'received_at'])
    .where('organization_id', '=', organization)
    .where('answer', 'is', null)
    .orderBy('id', 'desc')
    .limit(limit)
    .execute();
  return rows.map((row) => ({
    customer: row.customer,
    eventId: row.event_id,
    payload: row.payload,
    receivedAt: row.received_at,
  }));
}

/** Payments that customers' shops and payment services report; not in the OpenAPI document, because each customer has its own format. */
export const paymentsModule: Module<WebhookServices> = {
  name: 'payments',
  tables: paymentsTables,
  needs,
  register: (app) => payments(app, app.webhooks),
};
