// Helpers for the partner endpoints' OpenAPI descriptions.

import type { DescribedCode } from '../../engine/modules/index.ts';

const responses: Readonly<Record<number, string>> = {
  400: 'BadRequest',
  401: 'Unauthorized',
  403: 'Forbidden',
  404: 'NotFound',
  409: 'Duplicate',
  413: 'TooLarge',
  429: 'Throttled',
  500: 'Failure',
  501: 'NotConfigured',
  502: 'SendFailed',
  503: 'Unavailable',
};

/** Returns references to the shared OpenAPI error responses for these status codes. */
export const failure = (...statuses: readonly number[]) =>
  Object.fromEntries(
    statuses.map((status) => [status, { $ref: `#/components/responses/${responses[status]}` }]),
  );

/** Like {@link failure}, for routes that write records: if the instance has hooks, they can reject writes or fail. */
export const writeFailure = ({ hasHooks }: DescribedCode, ...statuses: readonly number[]) => ({
  ...failure(...statuses),
  ...(hasHooks && {
    400: { $ref: '#/components/responses/BadRequestOrRejected' },
    500: { $ref: '#/components/responses/FailureOfModule' },
  }),
});

/** Describes a successful response whose body has exactly the keys in `properties`. */
export const success = (
  description: string,
  properties: Readonly<Record<string, object>>,
  example: object,
) => ({
  description,
  content: {
    'application/json': {
      schema: { type: 'object', required: Object.keys(properties), properties },
      examples: { success: { value: example } },
    },
  },
});

/** Describes a JSON body whose values are strings. @param fields the description of each value, by key */
export const requestOf = (
  fields: Readonly<Record<string, string>>,
  description: string,
  example: Readonly<Record<string, string>>,
  required: readonly string[] = [],
) => ({
  required: true,
  description,
  content: {
    'application/json': {
      schema: {
        type: 'object',
        ...(required.length > 0 && { required }),
        properties: Object.fromEntries(
          Object.entries(fields).map(([name, meaning]) => [name, { type: 'string', description: meaning }]),
        ),
      },
      examples: { request: { value: example } },
    },
  },
});

/** Returns a reference to a security scheme in the OpenAPI document. */
export const secretScheme = (name: string) => ({ [name]: [] as string[] });
