import { hash } from 'node:crypto';
import type { SimulatedEvent, Simulation } from '../channels/index.ts';
import { signatures } from '../endpoint/index.ts';
import type { Payment } from '../settings/index.ts';

/** Partners that can be simulated, in addition to the customers in config.yaml. */
export const simulatedPartners = ['inbound-leads', 'booking-forms-whatsapp'];

/** A provider's or partner's deliveries. */
export interface Script extends Simulation {
  /** The large delivery's size in bytes, and whether the endpoint accepts it. */
  readonly large: { readonly bytes: number; readonly isAccepted: boolean };
}

/** A step's result. */
export interface StepResult {
  readonly step: string;
  readonly sent: number;
  /** Number of deliveries, keyed by response status or by the reason no response was received. */
  readonly answers: Readonly<Record<string, number>>;
  /** Median response time in milliseconds. */
  readonly p50_ms: number;
  readonly p99_ms: number;
}

const json = 'application/json';
/** A delivery that exceeds the size limit for partners. */
const large = { bytes: 3_000_000, isAccepted: false };
const bearer = (_body: Buffer, secret: string) => ({ authorization: `Bearer ${secret}` });

/** Returns a unique, fictitious email address for an event. */
const simulatedEmail = (id: string): string => `simulated-${id}@partner.example`;

/** Deliveries to POST /webhooks/inbound-leads. */
export const inboundLeadScript = (slug: string): Script => ({
  contentType: json,
  large,
  eventId: ({ id }) => simulatedEmail(id),
  body: ({ id, text }) =>
    JSON.stringify({
      first_name: 'Sam',
      last_name: 'Simulated',
      email: simulatedEmail(id),
      phone: '+1 555 010 0002',
      source: 'Website',
      campaign_name: 'Simulation',
      description: text,
    }),
  sign: (_body, secret) => ({ 'x-inbound-secret': secret, 'x-org-slug': slug }),
});

/** Deliveries to POST /api/booking-forms/whatsapp. */
export const bookingFormScript: Script = {
  contentType: json,
  large,
  eventId: ({ id }) => `simulated ${id}`,
  body: ({ id, text }) =>
    JSON.stringify({ to: '+15550100002', message: `simulated ${id} ${text}`.trim(), name: 'Sam' }),
  sign: bearer,
};

/** Deliveries to POST /webhooks/<customer>-payment, with values at the paths configured in the customer's entry. */
export function paymentScript(entry: Payment): Script {
  const { verify, event_id, lead = {}, opportunity = {}, when = {} } = entry;
  const paidAt = new Date().toISOString();
  /**
   * Returns identical bytes for the same event on every call, because an event without an ID is identified by
   * its digest.
   */
  const body = ({ id, text }: SimulatedEvent) => {
    const payload: Record<string, unknown> = { simulated_id: id, note: text };
    for (const [expression, values] of Object.entries(when)) put(payload, expression, values[0] ?? '');
    put(payload, opportunity.name, `simulated ${id}`);
    put(payload, opportunity.amount, opportunity.minor_units === true ? 12_345 : 123.45);
    put(payload, opportunity.currency, 'EUR');
    put(payload, opportunity.close_date, paidAt);
    put(payload, lead.email, simulatedEmail(id));
    put(payload, lead.phone, '+1 555 010 0002');
    put(payload, event_id, id);
    return JSON.stringify(payload);
  };
  const hasEventId = event_id !== undefined || entry.event_id_header !== undefined;
  return {
    contentType: json,
    large,
    eventId: (event) => (hasEventId ? event.id : hash('sha256', body(event), 'hex')),
    body,
    sign: (raw, secret) => {
      const { scheme = 'key', header } = verify;
      const now = Math.floor(Date.now() / 1000);
      const { simulated_id: id } = JSON.parse(raw.toString('utf8')) as { simulated_id: string };
      return {
        [header]: signatures[scheme](secret, raw, now),
        ...(entry.event_id_header !== undefined && { [entry.event_id_header]: id }),
      };
    },
  };
}

/**
 * Sets a value at an expression's path, for example `{{a.b.c}}`. If the expression contains several paths,
 * uses the first.
 */
function put(payload: Record<string, unknown>, expression: string | undefined, value: unknown): void {
  const path = /\{\{\{?\s*([\w.[\]-]+)\s*\}?\}\}/.exec(expression ?? '')?.[1]?.split('.') ?? [];
  const last = path.pop();
  if (last === undefined) return;
  let parent = payload;
  for (const step of path) {
    const next = parent[step];
    if (typeof next === 'object' && next !== null) parent = next as Record<string, unknown>;
    else {
      const child: Record<string, unknown> = {};
      parent[step] = child;
      parent = child;
    }
  }
  parent[last] = value;
}
