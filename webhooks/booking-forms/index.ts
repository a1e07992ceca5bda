// Booking forms: WhatsApp messages sent on behalf of booking forms.
// May import engine, plugins, endpoint, channels, sender.

import type { FastifyInstance } from 'fastify';
import type { Fragment } from '../../engine/compile/index.ts';
import { errors } from '../../engine/errors.ts';
import { json, rejectOtherMethods } from '../../engine/http/index.ts';
import type { Module } from '../../engine/modules/index.ts';
import { readBody } from '../../engine/records/index.ts';
import { findOrganization, tablesOf } from '../../engine/tables/index.ts';
import { bearerOf } from '../../plugins/access/identity/index.ts';
import { type ChannelConfig, type Channels, channelsOf } from '../channels/index.ts';
import {
  failure,
  matchesAnySecret,
  requestOf,
  secretScheme,
  stringFields,
  success,
  type WebhookServices,
  type Webhooks,
} from '../endpoint/index.ts';
import { send } from '../sender/index.ts';

export const bookingFormsPath = '/api/booking-forms/whatsapp';
const fields = {
  to: 'Recipient: a phone number in international format. Other values are accepted, but the sender can reject them (502).',
  message: 'Message text, sent unchanged unless a template is used.',
  name: "Recipient's name, for templates.",
  template: 'Name of a template. Without it, the message is sent unchanged.',
} as const;
const required = ['to', 'message'] as const;

/** Registers POST /api/booking-forms/whatsapp, which sends messages through the organization's sender. */
function bookingForms(app: FastifyInstance, webhooks: Webhooks, channels: Channels): void {
  const { settings, database, secretUse, wrongSecrets } = webhooks;
  app.post(bookingFormsPath, {
    onRequest: async (request) => {
      const { secrets } = settings.current.partners.booking_forms_whatsapp;
      if (secrets.length === 0) throw errors.notConfigured();
      const token = bearerOf(request.headers.authorization);
      if (token === undefined) throw errors.unauthenticated();
      if (!matchesAnySecret(token, secrets)) throw await wrongSecrets.errorFor(request, bookingFormsPath);
      secretUse.record('booking_forms_whatsapp', token);
    },
    handler: async (request, reply) => {
      const body = stringFields(readBody(request.headers['content-type'], request.body), Object.keys(fields));
      const missing = required.filter((name) => (body[name] ?? '').trim() === '');
      if (missing.length > 0) {
        throw errors.invalidFields(missing.map((field) => ({ field, message: `${field} is required` })));
      }
      const { to = '', message = '', name = '', template } = body;
      const { organization: slug } = settings.current.partners.booking_forms_whatsapp;
      const organization = await findOrganization(tablesOf(database), slug);
      if (organization === undefined) throw errors.notFound();
      request.owner = organization;
      const messageId = await send(webhooks, channels, organization, {
        to: to.trim(),
        message,
        name,
        template,
      });
      reply.header('content-type', json).header('cache-control', 'no-store');
      return JSON.stringify({ ok: true, message_id: messageId });
    },
  });
  rejectOtherMethods(app, bookingFormsPath, ['POST']);
}

/** OpenAPI description of the booking form endpoint. */
const paths: Fragment['paths'] = {
  [bookingFormsPath]: {
    post: {
      operationId: 'sendBookingMessage',
      summary: 'Send a confirmation message',
      description: "Sends a message through the sender configured for the token's organization.",
      tags: ['partners'],
      security: [secretScheme('partnerToken')],
      requestBody: requestOf(
        fields,
        'The message is never evaluated as a template.',
        { to: '+49 40 66969 974', message: 'Your table is booked for Friday, 19:30.' },
        required,
      ),
      responses: {
        200: success(
          'The provider accepted the message.',
          {
            ok: { type: 'boolean', const: true },
            message_id: { type: 'string', description: "The provider's message ID." },
          },
          { ok: true, message_id: 'wamid.HBgLNDk0MDY2OTY5OTc0' },
        ),
        ...failure(400, 401, 404, 413, 429, 500, 501, 502, 503),
      },
    },
  },
};

/** WhatsApp messages for booking forms. */
export const bookingFormsModule: Module<WebhookServices & { readonly config: ChannelConfig }> = {
  name: 'booking-forms',
  openApi: { paths },
  register: (app, { config }) => bookingForms(app, app.webhooks, channelsOf(config)),
};
