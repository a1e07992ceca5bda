import type { Fragment } from '../compile/index.ts';
import type { JsonSchema } from '../fields/index.ts';
import { pageSize } from '../query/index.ts';
import { everyHeader, headers, parameters, responses, schemaExamples } from './openapi-components.ts';
import { schemas } from './openapi-schemas.ts';

/** Path prefix of the REST API. */
export const apiPrefix = '/api/v1';

type ByName<T> = Readonly<Record<string, T>>;
type Paths = NonNullable<Fragment['paths']>;

const mapValues = <From, To>(record: ByName<From>, change: (value: From) => To): Record<string, To> =>
  Object.fromEntries(Object.entries(record).map(([name, value]) => [name, change(value)]));

const schemaReference = '#/components/schemas/';

/** Returns a function that adds the schema's example to a body, under the schema's name. */
const addExample =
  (examples: ByName<unknown>) =>
  <T extends JsonSchema>(body: T): T =>
    'content' in body
      ? {
          ...body,
          content: mapValues(body.content as ByName<JsonSchema>, (media) => {
            const { $ref = '' } = media.schema as { readonly $ref?: string };
            const name = $ref.slice(schemaReference.length);
            return Object.hasOwn(examples, name) && !('examples' in media)
              ? { ...media, examples: { [name]: { value: examples[name] } } }
              : media;
          }),
        }
      : body;

/** Adds examples, common response headers and 405 to every operation. */
function completePaths(paths: Paths, examples: ByName<unknown>): Paths {
  const withExample = addExample(examples);
  const response = (input: JsonSchema): JsonSchema =>
    '$ref' in input
      ? input
      : { ...withExample(input), headers: { ...everyHeader, ...(input.headers ?? {}) } };
  const operation = (input: JsonSchema): JsonSchema => ({
    ...input,
    ...('requestBody' in input && { requestBody: withExample(input.requestBody as JsonSchema) }),
    responses: {
      ...mapValues(input.responses as ByName<JsonSchema>, response),
      405: { $ref: '#/components/responses/MethodNotAllowed' },
    },
  });
  return mapValues(paths, (path) =>
    mapValues(path, (item) => ('responses' in item ? operation(item) : item)),
  );
}

const mergeAll = <T>(records: readonly (ByName<T> | undefined)[]): Record<string, T> =>
  Object.assign({}, ...records);

/**
 * Builds an instance's OpenAPI 3.1 document from the fragments of its modules.
 * @param info additional keys of `info`
 */
export function openApiDocument(
  fragments: readonly Fragment[],
  info: JsonSchema & { readonly version: string },
): JsonSchema {
  const examples = mergeAll([schemaExamples, ...fragments.map((fragment) => fragment.examples)]);
  const paths = completePaths(mergeAll(fragments.map((fragment) => fragment.paths)), examples);
  const text = JSON.stringify(paths);
  const usedResponses = Object.entries(responses).filter(([name]) =>
    text.includes(`"#/components/responses/${name}"`),
  );
  return {
    openapi: '3.1.1',
    info: {
      title: 'CRM API',
      ...info,
      summary: "Records of the caller's own organization.",
      description: `Every record belongs to one organization; the API key decides which. Lists have pages of ${pageSize}; follow \`next\` in the \`Link\` header until it is absent. Unknown list parameters are ignored unless the request has \`Prefer: handling=strict\`, which is a good default for clients. Identifiers are 64-bit integers. Timestamps keep the UTC offset that was sent, so clients that validate them must allow offsets. Every path with GET also supports HEAD, which is not listed and returns the same status and headers without the body. OPTIONS returns 204 with \`Allow\`.`,
      license: { name: 'MIT', identifier: 'MIT' },
    },
    servers: [{ url: '/', description: 'This instance.' }],
    security: fragments.flatMap(({ security = [] }) => security),
    tags: fragments.flatMap(({ tag = [] }) => tag),
    paths,
    webhooks: mergeAll(fragments.map((fragment) => fragment.webhooks)),
    components: {
      schemas: { ...mergeAll(fragments.map((fragment) => fragment.schemas)), ...schemas },
      responses: mapValues(Object.fromEntries(usedResponses), (response) => ({
        ...response,
        headers: { ...response.headers, ...mergeAll(fragments.map(({ errorHeaders }) => errorHeaders)) },
      })),
      headers,
      parameters: { ...parameters, ...mergeAll(fragments.map((fragment) => fragment.parameters)) },
      securitySchemes: mergeAll(fragments.map((fragment) => fragment.securitySchemes)),
    },
  };
}
