import type { FastifyInstance } from 'fastify';
import type { Fragment } from '../../engine/compile/index.ts';
import { errors } from '../../engine/errors.ts';
import { json, rejectOtherMethods } from '../../engine/http/index.ts';
import type { Module } from '../../engine/modules/index.ts';
import { readBody } from '../../engine/records/index.ts';
import { findOrganization, tablesOf } from '../../engine/tables/index.ts';
import { bearerOf } from '../../plugins/access/identity/index.ts';
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
  to: 'Recipient: an international telephone number. Any other text is accepted too, and the sender can reject it (502).',
  message: 'Text of the message; sent as it is.',
  name: 'Name of the recipient, for templates.',
  template: 'Name of a template; without it the message is sent as it is.',
} as const;
const required = ['to', 'message'] as const;

/** POST /api/booking-forms/whatsapp: sends one message through the organization's sender. */
function bookingForms(app: FastifyInstance, webhooks: Webhooks): void {
  const { settings, database, used, wrong } = webhooks;
  app.post(bookingFormsPath, {
    onRequest: async (request) => {
      const { secrets } = settings.current.partners.booking_forms_whatsapp;
      if (secrets.length === 0) throw errors.notConfigured();
      const given = bearerOf(request.headers.authorization);
      if (given === undefined) throw errors.unauthenticated();
      if (!matchesAnySecret(given, secrets)) throw await wrong.refusal(request, bookingFormsPath);
      used.record('booking_forms_whatsapp', given);
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
      const messageId = await send(webhooks, organization, { to: to.trim(), message, name, template });
      reply.header('content-type', json).header('cache-control', 'no-store');
      return JSON.stringify({ ok: true, message_id: messageId });
    },
  });
  rejectOtherMethods(app, bookingFormsPath, ['POST']);
}

/** Its OpenAPI description. */
const paths: Fragment['paths'] = {
  [bookingFormsPath]: {
    post: {
      operationId: 'sendBookingMessage',
      summary: 'Send a confirmation message',
      description: 'Sends through the messaging sender of the organization that the token is bound to.',
      tags: ['partners'],
      security: [secretScheme('partnerToken')],
      requestBody: requestOf(
        fields,
        'Text is data: what looks like a template in it is sent as it is.',
        { to: '+49 40 66969 974', message: 'Your table is booked for Friday, 19:30.' },
        required,
      ),
      responses: {
        200: success(
          'The sender took the message.',
          {
            ok: { type: 'boolean', const: true },
            message_id: { type: 'string', description: "The provider's id of the message." },
          },
          { ok: true, message_id: 'wamid.HBgLNDk0MDY2OTY5OTc0' },
        ),
        ...failure(400, 401, 404, 413, 429, 500, 501, 502, 503),
      },
    },
  },
};

/** WhatsApp messages sent for booking forms. */
export const bookingFormsModule: Module<WebhookServices> = {
  name: 'booking-forms',
  openApi: { paths },
  register: (app) => bookingForms(app, app.webhooks),
};
