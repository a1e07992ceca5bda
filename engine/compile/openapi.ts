import type { Field, ResourceDefinition } from '../definition/index.ts';
import type { Schema } from '../fields/index.ts';
import type { Action } from './access.ts';
import { pageSize } from './statements.ts';

/** What one part of the service says of itself in the OpenAPI document. */
export interface Fragment {
  readonly tag: Schema;
  readonly paths: Readonly<Record<string, Schema>>;
  readonly schemas: Readonly<Record<string, Schema>>;
  readonly securitySchemes?: Readonly<Record<string, Schema>>;
}

const ref = (kind: string, name: string) => ({ $ref: `#/components/${kind}/${name}` });
const pascal = (name: string) => name.replace(/(?:^|_)([a-z0-9])/g, (_, letter) => letter.toUpperCase());
const content = (schema: Schema) => ({ 'application/json': { schema } });

/** Compiles what the OpenAPI document says of a resource, from the definition that its routes come from too. */
export function openApiFragment(definition: ResourceDefinition, prefix: string): Fragment {
  const { name, singular, description, fields } = definition;
  const one = pascal(singular);
  const many = pascal(name);
  const word = singular.replaceAll('_', ' ');
  const aRecord = `${/^[aeiou]/.test(word) ? 'an' : 'a'} ${word}`;
  const collection = `${prefix}/${name}`;
  const common = [ref('parameters', 'org'), ref('parameters', 'Prefer')];
  const id = {
    name: 'id',
    in: 'path',
    required: true,
    description: `The ${word}'s id.`,
    schema: { type: 'integer', format: 'int64' },
  };
  const body = { required: true, content: content(ref('schemas', `${one}Input`)) };
  const answer = (text: string, schema: Schema, headers?: Schema) => ({
    description: text,
    ...(headers && { headers }),
    content: content(schema),
  });
  const operation = (action: Action, operationId: string, summary: string, more: Schema) => ({
    operationId,
    summary,
    description: `Needs the grant ${action} on ${name}.`,
    tags: [name],
    ...more,
  });
  const created = { Location: { description: 'Path of the new record.', schema: { type: 'string' } } };
  const record = ref('schemas', one);

  return {
    tag: { name, description },
    paths: {
      [collection]: {
        get: operation('list', `list${many}`, `List ${name}`, {
          parameters: [...common, ...listParameters(definition)],
          responses: {
            200: answer(`A page of ${name}.`, ref('schemas', `${one}List`)),
            ...failures('list'),
          },
        }),
        post: operation('create', `create${one}`, `Create ${aRecord}`, {
          parameters: common,
          requestBody: body,
          responses: { 201: answer('The created record.', record, created), ...failures('create') },
        }),
      },
      [`${collection}/{id}`]: {
        parameters: [id],
        get: operation('read', `get${one}`, `Read ${aRecord}`, {
          parameters: common,
          responses: { 200: answer('The record.', record), ...failures('read') },
        }),
        put: operation('update', `replace${one}`, `Replace ${aRecord}`, {
          parameters: common,
          requestBody: {
            ...body,
            description: 'Every field to keep. A writable field that is absent gets its default.',
          },
          responses: { 200: answer('The record as it is now.', record), ...failures('update') },
        }),
        delete: operation('delete', `delete${one}`, `Delete ${aRecord}`, {
          parameters: common,
          responses: {
            200: answer('The record is gone; references to it became null.', ref('schemas', 'Deleted')),
            ...failures('delete'),
          },
        }),
      },
    },
    schemas: {
      [one]: {
        type: 'object',
        description: description || undefined,
        required: fields.map((field) => field.name),
        properties: Object.fromEntries(fields.map((field) => [field.name, recordSchema(field)])),
      },
      [`${one}Input`]: inputSchema(fields, aRecord),
      [`${one}List`]: {
        type: 'object',
        required: ['data', 'page', 'per_page'],
        properties: {
          data: { type: 'array', maxItems: pageSize, items: ref('schemas', one) },
          page: { type: 'integer', minimum: 1, description: 'The page asked for.' },
          per_page: { type: 'integer', const: pageSize },
        },
      },
    },
  };
}

/** The answers that each action may give beside success. */
function failures(action: Action) {
  const withId = action === 'read' || action === 'update' || action === 'delete';
  const withBody = action === 'create' || action === 'update';
  return {
    400: ref('responses', 'BadRequest'),
    401: ref('responses', 'Unauthorized'),
    403: ref('responses', 'Forbidden'),
    ...(withId && { 404: ref('responses', 'NotFound') }),
    ...(withBody && { 413: ref('responses', 'TooLarge') }),
    500: ref('responses', 'Failure'),
    503: ref('responses', 'Draining'),
  };
}

function inputSchema(fields: readonly Field[], aRecord: string): Schema {
  const writable = fields.filter((field) => !field.readOnly);
  const required = writable.filter((field) => field.required).map((field) => field.name);
  return {
    type: 'object',
    description: `The writable fields of ${aRecord}. Other keys are ignored. Null counts as absent.`,
    ...(required.length > 0 && { required }),
    properties: Object.fromEntries(writable.map((field) => [field.name, fieldInputSchema(field)])),
  };
}

/** A field in a response. */
function recordSchema(field: Field): Schema {
  return {
    ...valueSchema(field, field.nullable),
    ...(field.readOnly && { readOnly: true }),
  };
}

/** A field in a body: null stands for "absent" unless the field is required. */
function fieldInputSchema(field: Field): Schema {
  return {
    ...valueSchema(field, !field.required),
    ...(field.maxLength !== undefined && { maxLength: field.maxLength }),
    ...(field.pattern !== undefined && { pattern: field.pattern }),
    ...(field.required ? {} : { default: field.default }),
  };
}

function valueSchema(field: Field, orNull: boolean): Schema {
  const { json } = field.type;
  const description = [field.description, knownValues(field)].filter((part) => part !== '').join(' ');
  return {
    ...json,
    ...(orNull && { type: [json.type, 'null'] }),
    ...(description !== '' && { description }),
    // Not "enum": any string is accepted and may come back, and generated clients must take it.
    ...(field.values && { examples: field.values.list, 'x-extensible-enum': field.values.list }),
  };
}

function knownValues({ values }: Field): string {
  if (values === undefined) return '';
  const list = values.list.map((value) => `\`${value}\``).join(', ');
  return values.closed
    ? `One of ${list}. Any other string is stored too, but filters and reports know only these.`
    : `Suggested: ${list}.`;
}

function listParameters({ sort, filters, fields }: ResourceDefinition): Schema[] {
  const chosen = sort.selectable
    ? [
        {
          name: 'sort',
          in: 'query',
          description: `Field to sort by; default \`${sort.by.name}\`. Equal values are ordered by id.`,
          schema: {
            type: 'string',
            enum: fields.filter((field) => field.type.order !== undefined).map((field) => field.name),
            default: sort.by.name,
          },
        },
        {
          name: 'dir',
          in: 'query',
          description: `Direction; default \`${sort.direction}\` for \`${sort.by.name}\`, \`asc\` for other fields.`,
          schema: { type: 'string', enum: ['asc', 'desc'] },
        },
      ]
    : [];
  const filtering = filters.map((field) => ({
    name: field.name,
    in: 'query',
    description: `Only records with exactly this ${field.name}. Repeated: any of them. Empty: no filter.`,
    schema: {
      ...field.type.json,
      ...(field.values && { examples: field.values.list, 'x-extensible-enum': field.values.list }),
    },
  }));
  return [ref('parameters', 'page'), ...chosen, ...filtering];
}
