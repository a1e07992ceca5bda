import type { ResourceDefinition } from '../definition/index.ts';
import type { Field, Schema } from '../fields/index.ts';
import { pageSize } from '../query/index.ts';
import { type Action, type DescribedResource, type Operation, operations } from '../records/index.ts';

/** The OpenAPI description of one part of the service. */
export interface Fragment {
  readonly tag?: Schema;
  readonly paths?: Readonly<Record<string, Schema>>;
  readonly schemas?: Readonly<Record<string, Schema>>;
  /** Ways to authenticate for all operations of the document. */
  readonly security?: readonly Schema[];
  readonly securitySchemes?: Readonly<Record<string, Schema>>;
}

const ref = (kind: string, name: string) => ({ $ref: `#/components/${kind}/${name}` });
const pascal = (name: string) => name.replace(/(?:^|_)([a-z0-9])/g, (_, letter) => letter.toUpperCase());
const content = (schema: Schema) => ({ 'application/json': { schema } });

/** Compiles the OpenAPI description of a resource from its definition and operations. */
export function openApiFragment(definition: ResourceDefinition, prefix: string): Fragment {
  const { name, singular, description, fields } = definition;
  const recordName = pascal(singular);
  const word = singular.replaceAll('_', ' ');
  const aRecord = `${/^[aeiou]/.test(word) ? 'an' : 'a'} ${word}`;
  const resource: DescribedResource = { definition, aRecord, recordName, pluralName: pascal(name) };
  const all: readonly Operation[] = Object.values(operations) as unknown as readonly Operation[];
  const at = (path: Operation['path']) =>
    Object.fromEntries(
      all
        .filter((operation) => operation.path === path)
        .map((operation) => [operation.method.toLowerCase(), describeOperation(resource, operation)]),
    );
  const id = {
    name: 'id',
    in: 'path',
    required: true,
    description: `The ${word}'s id.`,
    schema: { type: 'integer', format: 'int64' },
  };

  return {
    tag: { name, description },
    paths: {
      [`${prefix}/${name}`]: at(''),
      [`${prefix}/${name}/{id}`]: { parameters: [id], ...at('/:id') },
    },
    schemas: {
      [recordName]: {
        type: 'object',
        description: description || undefined,
        required: fields.map((field) => field.name),
        properties: Object.fromEntries(fields.map((field) => [field.name, recordSchema(field)])),
      },
      [`${recordName}Input`]: inputSchema(fields, aRecord),
      [`${recordName}List`]: {
        type: 'object',
        required: ['data', 'page', 'per_page'],
        properties: {
          data: { type: 'array', maxItems: pageSize, items: ref('schemas', recordName) },
          page: { type: 'integer', minimum: 1, description: 'The page asked for.' },
          per_page: { type: 'integer', const: pageSize },
        },
      },
    },
  };
}

const locationHeader = { Location: { description: 'Path of the new record.', schema: { type: 'string' } } };

/** An operation as the OpenAPI document describes it. */
function describeOperation(resource: DescribedResource, operation: Operation): Schema {
  const { name } = resource.definition;
  const { operationId, summary, parameters = [], body, success } = operation.describe(resource);
  const headers = { ...(operation.status === 201 && locationHeader), ...success.headers };
  return {
    operationId,
    summary,
    description: `Needs the grant ${operation.action} on ${name}.`,
    tags: [name],
    parameters: [ref('parameters', 'org'), ref('parameters', 'Prefer'), ...parameters],
    ...(body && {
      requestBody: {
        required: true,
        content: content(ref('schemas', `${resource.recordName}Input`)),
        ...body,
      },
    }),
    responses: {
      [operation.status]: {
        description: success.description,
        ...(Object.keys(headers).length > 0 && { headers }),
        content: content(ref('schemas', success.schema)),
      },
      ...failures(operation.action),
    },
  };
}

/** The error responses of each action. */
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
    503: ref('responses', 'Unavailable'),
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

/** A field in a body: null means "absent" unless the field is required. */
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
    // Not "enum": any string is accepted and may be returned, and generated clients must accept it.
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
