import type { JsonSchema } from '../fields/index.ts';

/** Name of the tag under which OpenAPI 3.2 groups the tags of resources. Resources cannot have it, because it is capitalized. */
const recordsTag = 'Records';

const object = (value: unknown): JsonSchema => (value ?? {}) as JsonSchema;

/** Returns a record with changed values. */
const mapValues = (record: unknown, change: (value: JsonSchema, name: string) => unknown): JsonSchema =>
  Object.fromEntries(
    Object.entries(object(record)).map(([name, value]) => [name, change(object(value), name)]),
  );

const schemaReference = '#/components/schemas/';

/** Returns the schema of an item in the JSON form of a list, which is in `data`. */
function listItem(media: unknown, schemas: JsonSchema): unknown {
  const { $ref = '' } = object(object(media).schema);
  const { properties } = object(schemas[String($ref).slice(schemaReference.length)]);
  return object(object(properties).data).items;
}

/** An event of the change feed's stream. Its data is JSON. */
const streamItem = (change: string) => ({
  type: 'object',
  required: ['id', 'data'],
  properties: {
    id: { type: 'string', description: 'Cursor of the position after the change.' },
    data: {
      type: 'string',
      contentMediaType: 'application/json',
      contentSchema: { $ref: `${schemaReference}${change}` },
    },
  },
});

/** Returns the schema of an item in a sequential media type, or undefined for other types. */
function itemSchemaOf(type: string, content: JsonSchema, input: string, schemas: JsonSchema): unknown {
  if (type === 'text/event-stream') return streamItem('Change');
  if (type !== 'application/x-ndjson') return undefined;
  return 'application/json' in content
    ? listItem(content['application/json'], schemas)
    : { $ref: `${schemaReference}${input}` };
}

/** Replaces the schemas of sequential media types by those of an item. */
const convertContent = (content: unknown, schemas: JsonSchema): JsonSchema =>
  mapValues(content, (media, type) => {
    const name = String(object(media.schema).$ref ?? '').slice(schemaReference.length);
    const itemSchema = itemSchemaOf(type, object(content), name.replace(/Ndjson$/, 'Input'), schemas);
    if (itemSchema === undefined) return media;
    const { schema: _, ...others } = media;
    return { itemSchema, ...others };
  });

const convertBody = (body: JsonSchema, schemas: JsonSchema): JsonSchema =>
  'content' in body ? { ...body, content: convertContent(body.content, schemas) } : body;

/** Converts an operation. Other keys of a path item, for example `parameters`, stay as they are. */
const convertOperation = (operation: JsonSchema, schemas: JsonSchema): JsonSchema =>
  'responses' in operation
    ? {
        ...operation,
        ...('requestBody' in operation && {
          requestBody: convertBody(object(operation.requestBody), schemas),
        }),
        responses: mapValues(operation.responses, (response) => convertBody(response, schemas)),
      }
    : operation;

/** Adds the method QUERY (RFC 10008) to the paths whose lists can also be requested with a POST to `/query`. */
const withQueryMethod = (paths: JsonSchema): JsonSchema =>
  mapValues(paths, (item, path) => {
    const { post } = object(paths[`${path}/query`]);
    if (post === undefined) return item;
    const { operationId, ...operation } = object(post);
    return { ...item, query: { operationId: `${operationId}ByQueryMethod`, ...operation } };
  });

/** Replaces the extension for a tag's title by `summary`, and groups the tags of resources. */
function convertTags(tags: readonly JsonSchema[], paths: JsonSchema, prefix: string): readonly JsonSchema[] {
  const isOfResource = ({ name }: JsonSchema) => Object.hasOwn(paths, `${prefix}/${name}`);
  return [
    { name: recordsTag, summary: 'Records', description: "The organization's records.", kind: 'nav' },
    ...tags.map((tag) => {
      const { 'x-displayName': summary, ...others } = tag;
      return {
        ...others,
        ...(summary !== undefined && { summary }),
        ...(isOfResource(tag) && { parent: recordsTag }),
        kind: 'nav',
      };
    }),
  ];
}

/** Returns the schemas that the rest of the document still refers to, directly or through other schemas. */
export function usedSchemas(schemas: JsonSchema, rest: unknown): JsonSchema {
  const used = new Set<string>();
  const add = (part: unknown): void => {
    for (const [, name = ''] of JSON.stringify(part).matchAll(/"#\/components\/schemas\/([\w.-]+)"/g)) {
      if (used.has(name)) continue;
      used.add(name);
      add(object(schemas[name]));
    }
  };
  add(rest);
  return Object.fromEntries(Object.entries(schemas).filter(([name]) => used.has(name)));
}

/**
 * Converts an instance's OpenAPI 3.1 document to OpenAPI 3.2, which can describe the items of streams and groups of tags.
 * @param prefix base path of the API
 */
export function openApi32(document: JsonSchema, prefix: string): JsonSchema {
  const components = object(document.components);
  const schemas = object(components.schemas);
  const paths = mapValues(document.paths, (path) =>
    // Parameters are a list.
    Object.fromEntries(
      Object.entries(path).map(([name, item]) => [
        name,
        Array.isArray(item) ? item : convertOperation(object(item), schemas),
      ]),
    ),
  );
  const { schemas: _, ...otherComponents } = components;
  return {
    ...document,
    openapi: '3.2.0',
    tags: convertTags(document.tags as readonly JsonSchema[], paths, prefix),
    paths: withQueryMethod(paths),
    components: {
      schemas: usedSchemas(schemas, { paths, webhooks: document.webhooks, otherComponents }),
      ...otherComponents,
    },
  };
}
