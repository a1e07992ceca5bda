import type { FastifyInstance, FastifyRequest } from 'fastify';
import type { StatementRunner } from '../../engine/database/index.ts';
import type { FieldRequirements } from '../../engine/definition/index.ts';
import { errors } from '../../engine/errors.ts';
import { json, rejectOtherMethods } from '../../engine/http/index.ts';
import type { Module } from '../../engine/modules/index.ts';
import { type Records, readBody } from '../../engine/records/index.ts';
import {
  findOrganization,
  phoneRegionIn,
  type RowSource,
  statementOf,
  type Tables,
  tablesOf,
} from '../../engine/tables/index.ts';
import {
  convertedStatus,
  convertLead,
  creatingPartnerRecords,
  findLead,
  ownProperty,
  signedWith,
  type WebhookServices,
  type Webhooks,
} from '../endpoint/index.ts';
import { withoutTextConversion } from '../settings/index.ts';
import { paymentsFragment } from './description.ts';
import { isPing, matchesConditions, type ParsedPayment, readPayment, withoutUnstorable } from './payload.ts';
import { paymentsTables } from './tables.ts';

const text = { types: ['string', 'text'], writable: true } as const;
/** Fields that payment hooks read and write. */
const needs: readonly FieldRequirements[] = [
  {
    file: 'webhooks/payments/payments.ts (partners.payments in config.yaml)',
    resource: 'leads',
    fields: {
      email: { types: ['string'], lookup: 'caseless' },
      phone: { types: ['string'], lookup: 'digits' },
      status: { types: ['string'], values: [convertedStatus] },
    },
  },
  {
    file: 'webhooks/payments/payments.ts (partners.payments in config.yaml)',
    resource: 'opportunities',
    fields: {
      name: text,
      amount: { types: ['number'], writable: true },
      stage: { ...text, values: ['Closed Won'] },
      probability: { types: ['integer', 'int64', 'number'], writable: true },
      close_date: { types: ['timestamp'], writable: true },
      description: text,
    },
  },
];

/** Returns the last segment of a customer's URL. */
export const hookOf = (customer: string): string => `${customer}-payment`;
/** Returns a hook's customer, or an empty string if the name is not a hook name. */
export const customerOf = (hook: string): string => /^(.+)-payment$/.exec(hook)?.[1] ?? '';
/** Returns a hook's path. */
export const paymentPath = (hook: string): string => `/webhooks/${hook}`;

/** Registers POST /webhooks/<customer>-payment for the payment entries in config.yaml. */
function payments(app: FastifyInstance, webhooks: Webhooks): void {
  const { settings, database, secretUse, wrongSecrets } = webhooks;
  const entryOf = (request: FastifyRequest) => {
    const { hook } = request.params as { hook: string };
    const customer = customerOf(hook);
    const entry = ownProperty(settings.current.partners.payments, customer);
    if (entry === undefined) throw errors.notFound();
    return { customer, entry };
  };
  app.post<{ Params: { hook: string } }>(paymentPath(':hook'), {
    onRequest: async (request) => {
      const { entry } = entryOf(request);
      if (entry.verify.secrets.length === 0) throw errors.notConfigured();
    },
    handler: async (request, reply) => {
      const { customer, entry } = entryOf(request);
      const raw = Buffer.isBuffer(request.body) ? request.body : Buffer.alloc(0);
      reply.header('content-type', json).header('cache-control', 'no-store');
      if (isPing(entry, request, raw)) return '{"ok":true}';
      const { scheme = 'key', header, secrets } = entry.verify;
      const signature = request.headers[header.toLowerCase()];
      const now = Date.now() / 1000;
      if (typeof signature !== 'string') throw errors.unauthenticated();
      const secret = signedWith(scheme, secrets, { header: signature, raw, now });
      if (secret === undefined) throw await wrongSecrets.errorFor(request, paymentPath(hookOf(customer)));
      secretUse.record(`payments.${customer}`, secret);
      const payload = withoutTextConversion(readBody(request.headers['content-type'], raw));
      if (!matchesConditions(entry, payload)) return '{"ok":true,"ignored":true}';
      const payment = readPayment(entry, payload, request, raw);
      const organization = await findOrganization(tablesOf(database), entry.organization);
      if (organization === undefined) throw errors.notFound();
      request.owner = organization;
      const partner = { organization, requestId: request.id, name: `${customer}-payment` };
      const tables = tablesOf(database);
      const phoneRegion = await phoneRegionIn(tables, organization);
      return creatingPartnerRecords(webhooks, partner, (records, run) =>
        apply(payment, { tables, run, records, organization, customer, phoneRegion, raw }),
      );
    },
  });
  rejectOtherMethods(app, paymentPath(':hook'), ['POST']);
}

const unmatchedResponse = '{"ok":true,"matched":false';

/** The delivery of a payment, and access to the transaction that applies it. */
interface PaymentContext {
  /** Builds queries, which {@link run} runs. */
  readonly tables: Tables;
  readonly run: StatementRunner;
  readonly records: Records;
  readonly organization: string;
  readonly customer: string;
  readonly phoneRegion: string | undefined;
  readonly raw: Buffer;
}

/**
 * Claims the event, converts the lead and creates the opportunity, all in one transaction and only once per event.
 */
async function apply(
  { eventId, lead, opportunity }: ParsedPayment,
  { tables, run, records, organization, customer, phoneRegion, raw }: PaymentContext,
): Promise<string> {
  const [claim] = await run(
    statementOf(
      tables
        .insertInto('crm_payment_events')
        .values({
          organization_id: organization,
          customer,
          event_id: eventId,
          answer: null,
          payload: withoutUnstorable(raw.toString('utf8')),
        })
        // If an event is delivered twice concurrently, the second delivery waits here for the first.
        .onConflict((conflict) => conflict.columns(['organization_id', 'customer', 'event_id']).doNothing())
        .returning('id')
        .compile(),
    ),
  );
  if (claim === undefined) {
    const [previous] = await run(
      statementOf(
        tables
          .selectFrom('crm_payment_events')
          .select('answer')
          .where('organization_id', '=', organization)
          .where('customer', '=', customer)
          .where('event_id', '=', eventId)
          .compile(),
      ),
    );
    return `${previous?.[0] ?? unmatchedResponse},"duplicate":true}`;
  }
  const leadId = await findLead(records, lead, phoneRegion);
  if (leadId === undefined) return `${unmatchedResponse}}`;
  await convertLead(records, leadId);
  const opportunityId = await records.create('opportunities', opportunity);
  // IDs are written as JSON integers without rounding.
  const response = `{"ok":true,"lead_id":${leadId},"opportunity_id":${opportunityId}`;
  await run(
    statementOf(
      tables
        .updateTable('crm_payment_events')
        .set({ answer: response })
        .where('organization_id', '=', organization)
        .where('id', '=', String(claim[0]))
        .compile(),
    ),
  );
  return `${response}}`;
}

/** A payment that did not match a lead. */
export interface UnmatchedPayment {
  readonly id: string;
  readonly customer: string;
  readonly eventId: string;
  /** The payload, or its start. */
  readonly payload: string;
  readonly isTruncated: boolean;
  readonly receivedAt: Date;
}

/** Maximum number of characters of a payload in a list. */
const maxShownPayload = 2000;

/** An organization's unmatched payments, newest first. */
export const unmatchedPayments: RowSource<UnmatchedPayment> = {
  from: 'crm_payment_events e',
  owner: 'e.organization_id',
  where: 'e.answer is null',
  columns: {
    id: 'e.id',
    customer: 'e.customer',
    eventId: 'e.event_id',
    payload: `left(e.payload, ${maxShownPayload})`,
    isTruncated: `length(e.payload) > ${maxShownPayload}`,
    receivedAt: 'e.received_at',
  },
  search: ['e.customer', 'e.event_id', 'e.payload'],
  order: 'e.id desc',
};

/** The full payloads of an organization's unmatched payments. */
export const unmatchedPayloads: RowSource<{ readonly id: string; readonly payload: string }> = {
  ...unmatchedPayments,
  columns: { id: 'e.id', payload: 'e.payload' },
};

/** Receives payments from shops and payment services. */
export const paymentsModule: Module<WebhookServices> = {
  name: 'payments',
  openApi: (_definitions, instance) => paymentsFragment(instance),
  tables: paymentsTables,
  needs,
  register: (app) => payments(app, app.webhooks),
};
