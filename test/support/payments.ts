// Payment hooks for five customers: their entries in config.yaml and their providers' deliveries.
import { hmacBase64, hmacHex, sha256, stripeSignature } from './partners.ts';

/** A purchase: the event's ID and the lead's contact details. */
export interface Purchase {
  readonly event: string;
  readonly email: string | null;
  readonly phone: string | null;
}

/** A customer with a payment hook. */
export interface Customer {
  readonly name: string;
  /** Entry under partners.payments. Its secrets are {@link newSecret} and {@link oldSecret}, from the environment. */
  readonly entry: object;
  readonly payload: (purchase: Purchase) => object;
  /** Returns the headers for a body, signed with a secret. */
  readonly headers: (raw: string, secret: string, event: string) => Record<string, string>;
  /** Returns the ID under which the event is stored. */
  readonly eventId: (raw: string, event: string) => string;
  /** Expected opportunity. `{event}` is replaced with the event's ID. */
  readonly opportunity: Readonly<Record<string, unknown>>;
}

export const newSecret = (name: string): string => `${name}-new-secret-of-this-customer`;
export const oldSecret = (name: string): string => `${name}-old-secret-of-this-customer`;
const secrets = (name: string) => [`\${${name.toUpperCase()}_NEW}`, `\${${name.toUpperCase()}_OLD}`];
export const organization = 'shop';

export const customers: readonly Customer[] = [
  {
    name: 'acme',
    entry: {
      organization,
      verify: { header: 'X-Acme-Key', secrets: secrets('acme') },
      lead: { id: '{{crm.lead}}', email: '{{customer.email}}', phone: '{{customer.phone}}' },
      opportunity: { name: 'Order {{id}} & more', amount: '{{total}}', close_date: '{{paid_at}}' },
    },
    payload: ({ event, email, phone }) => ({
      id: event,
      total: 1234.5,
      paid_at: '2026-03-01T09:30:00+05:30',
      customer: { email, phone },
    }),
    headers: (_raw, secret) => ({ 'x-acme-key': secret }),
    eventId: (raw) => sha256(raw),
    opportunity: { name: 'Order {event} & more', amount: 1234.5, close_date: '2026-03-01T04:00:00Z' },
  },
  {
    name: 'stripe',
    entry: {
      organization,
      verify: { scheme: 'stripe', header: 'Stripe-Signature', secrets: secrets('stripe') },
      event_id: '{{id}}',
      when: { '{{type}}': ['checkout.session.completed'] },
      lead: {
        email: '{{data.object.customer_details.email}}',
        phone: '{{data.object.customer_details.phone}}',
      },
      opportunity: {
        name: 'Stripe {{data.object.id}}',
        amount: '{{data.object.amount_total}}',
        currency: '{{data.object.currency}}',
        close_date: '{{created}}',
        minor_units: true,
      },
    },
    payload: ({ event, email, phone }) => ({
      id: event,
      object: 'event',
      type: 'checkout.session.completed',
      created: 1767225600,
      data: {
        object: {
          id: `cs_${event}`,
          amount_total: 1999,
          currency: 'usd',
          customer_details: { email, phone },
        },
      },
    }),
    headers: (raw, secret) => ({ 'stripe-signature': stripeSignature([secret], raw) }),
    eventId: (_raw, event) => event,
    opportunity: { name: 'Stripe cs_{event}', amount: 19.99, close_date: '2026-01-01T00:00:00Z' },
  },
  {
    name: 'razorpay',
    entry: {
      organization,
      verify: { scheme: 'hmac-sha256-hex', header: 'X-Razorpay-Signature', secrets: secrets('razorpay') },
      event_id_header: 'X-Razorpay-Event-Id',
      lead: { email: '{{payload.payment.entity.email}}', phone: '{{payload.payment.entity.contact}}' },
      opportunity: {
        name: '{{payload.payment.entity.id}}',
        amount: '{{payload.payment.entity.amount}}',
        currency: '{{payload.payment.entity.currency}}',
        close_date: '{{created_at}}',
        minor_units: true,
      },
    },
    payload: ({ event, email, phone }) => ({
      event: 'payment.captured',
      created_at: 1767225600,
      payload: {
        payment: { entity: { id: `pay_${event}`, amount: 50001, currency: 'INR', email, contact: phone } },
      },
    }),
    headers: (raw, secret, event) => ({
      'x-razorpay-signature': hmacHex(secret, raw),
      'x-razorpay-event-id': event,
    }),
    eventId: (_raw, event) => event,
    opportunity: { name: 'pay_{event}', amount: 500.01, close_date: '2026-01-01T00:00:00Z' },
  },
  {
    name: 'shopify',
    entry: {
      organization,
      verify: { scheme: 'hmac-sha256-base64', header: 'X-Shopify-Hmac-Sha256', secrets: secrets('shopify') },
      event_id_header: 'X-Shopify-Event-Id',
      lead: { email: '{{email}}', phone: '{{phone}}' },
      opportunity: {
        name: 'Shopify {{name}}',
        amount: '{{total_price}}',
        currency: '{{currency}}',
        close_date: '{{processed_at}}',
      },
    },
    payload: ({ event, email, phone }) => ({
      id: 820982911946,
      name: `#${event}`,
      email,
      phone,
      total_price: '403.00',
      currency: 'EUR',
      processed_at: '2026-01-01T02:00:00+02:00',
    }),
    headers: (raw, secret, event) => ({
      'x-shopify-hmac-sha256': hmacBase64(secret, raw),
      'x-shopify-event-id': event,
    }),
    eventId: (_raw, event) => event,
    opportunity: { name: 'Shopify #{event}', amount: 403, close_date: '2026-01-01T00:00:00Z' },
  },
  {
    name: 'woo',
    entry: {
      organization,
      verify: { scheme: 'hmac-sha256-base64', header: 'X-WC-Webhook-Signature', secrets: secrets('woo') },
      event_id_header: 'X-WC-Webhook-Delivery-ID',
      lead: { email: '{{billing.email}}', phone: '{{billing.phone}}' },
      opportunity: {
        name: 'Order {{number}} of {{billing.first_name}} {{billing.last_name}}',
        amount: '{{total}}',
        currency: '{{currency}}',
        close_date: '{{date_paid_gmt}}Z',
      },
    },
    payload: ({ event, email, phone }) => ({
      number: event,
      status: 'processing',
      currency: 'GBP',
      total: '29.35',
      date_paid_gmt: '2026-01-01T00:00:00',
      billing: { first_name: 'Zoë', last_name: "O'Neil", email, phone },
    }),
    headers: (raw, secret, event) => ({
      'x-wc-webhook-signature': hmacBase64(secret, raw),
      'x-wc-webhook-delivery-id': event,
    }),
    eventId: (_raw, event) => event,
    opportunity: { name: "Order {event} of Zoë O'Neil", amount: 29.35, close_date: '2026-01-01T00:00:00Z' },
  },
];

/** Entries for a settings file. */
export const entries = Object.fromEntries(customers.map(({ name, entry }) => [name, entry]));
/** Environment variables with the secrets. */
export const variables = Object.fromEntries(
  customers.flatMap(({ name }) => [
    [`${name.toUpperCase()}_NEW`, newSecret(name)],
    [`${name.toUpperCase()}_OLD`, oldSecret(name)],
  ]),
);
