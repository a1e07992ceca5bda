import type { Fragment } from '../../engine/compile/index.ts';
import type { DescribedCode } from '../../engine/modules/index.ts';
import { writeFailure } from '../endpoint/index.ts';

const int64 = { type: 'integer', format: 'int64' };
const ok = { ok: true };

/** Returns the OpenAPI description of the payment hooks. One path represents all hooks in config.yaml. */
export const paymentsFragment = (instance: DescribedCode): Fragment => ({
  paths: {
    '/webhooks/{customer}-payment': {
      parameters: [
        {
          name: 'customer',
          in: 'path',
          required: true,
          description: 'Name of an entry under `partners.payments` in config.yaml.',
          schema: { type: 'string', examples: ['acme'] },
        },
      ],
      post: {
        operationId: 'reportPayment',
        summary: 'Report a payment',
        description:
          "Converts the payment's lead and creates a Closed Won opportunity, once per event. The authentication header (a shared key or a signature) and the paths to the values in the payload are configured in config.yaml.",
        tags: ['partners'],
        security: [],
        requestBody: {
          required: true,
          description: "The payload from the customer's shop or payment service.",
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
            description: 'The event was recorded and will not be processed again.',
            content: {
              'application/json': {
                schema: {
                  type: 'object',
                  description: 'Result of the payment.',
                  required: ['ok'],
                  properties: {
                    ok: { type: 'boolean', const: true },
                    lead_id: { ...int64, description: 'The converted lead.' },
                    opportunity_id: { ...int64, description: 'The new opportunity.' },
                    matched: {
                      type: 'boolean',
                      const: false,
                      description: 'No lead was found. Administrators can see the payment in the admin UI.',
                    },
                    duplicate: {
                      type: 'boolean',
                      const: true,
                      description: 'The event was already recorded; this is the original result.',
                    },
                    ignored: {
                      type: 'boolean',
                      const: true,
                      description: 'The event does not satisfy the conditions in config.yaml.',
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
          ...writeFailure(instance, 400, 401, 403, 404, 413, 429, 500, 501, 503),
        },
      },
    },
  },
});
