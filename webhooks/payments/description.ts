import type { Fragment } from '../../engine/compile/index.ts';
import { failure } from '../endpoint/index.ts';

const int64 = { type: 'integer', format: 'int64' };
const ok = { ok: true };

/** The OpenAPI description of payment hooks: one path stands for all, because config.yaml names them. */
export const paymentsFragment: Fragment = {
  paths: {
    '/webhooks/{customer}-payment': {
      parameters: [
        {
          name: 'customer',
          in: 'path',
          required: true,
          description: 'The name of an entry under `partners.payments` in config.yaml.',
          schema: { type: 'string', examples: ['acme'] },
        },
      ],
      post: {
        operationId: 'reportPayment',
        summary: 'Report a payment',
        description:
          'Converts the lead that the payment belongs to and opens a Closed Won opportunity, once for each event. The header that authenticates it, a shared key or a signature, and where the payload has what, are in config.yaml.',
        tags: ['partners'],
        security: [],
        requestBody: {
          required: true,
          description: "As the customer's shop or payment service sends it.",
          content: {
            'application/json': {
              schema: { type: 'object', additionalProperties: true },
              examples: {
                order: {
                  value: { id: 'order-1001', total: 49.9, customer: { email: 'ada@example.com' } },
                },
              },
            },
          },
        },
        responses: {
          200: {
            description: 'The event is known, and never processed again.',
            content: {
              'application/json': {
                schema: {
                  type: 'object',
                  description: 'What became of the payment.',
                  required: ['ok'],
                  properties: {
                    ok: { type: 'boolean', const: true },
                    lead_id: { ...int64, description: 'The lead that was converted.' },
                    opportunity_id: { ...int64, description: 'The opportunity that was opened.' },
                    matched: {
                      type: 'boolean',
                      const: false,
                      description: 'No lead was found; an administrator sees the payment.',
                    },
                    duplicate: {
                      type: 'boolean',
                      const: true,
                      description: 'The event came before; this is what it led to.',
                    },
                    ignored: {
                      type: 'boolean',
                      const: true,
                      description: 'The event is of no interest here.',
                    },
                  },
                },
                examples: {
                  converted: { value: { ...ok, lead_id: 1, opportunity_id: 1 } },
                  again: { value: { ...ok, lead_id: 1, opportunity_id: 1, duplicate: true } },
                  unmatched: { value: { ...ok, matched: false } },
                },
              },
            },
          },
          ...failure(400, 401, 403, 404, 413, 429, 500, 501, 503),
        },
      },
    },
  },
};
