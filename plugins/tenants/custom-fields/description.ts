import type { Fragment } from '../../../engine/compile/index.ts';
import { type CustomFieldOptions, customTypes } from '../../../engine/definition/index.ts';
import { type JsonSchema, textFormatNames } from '../../../engine/fields/index.ts';
import { customFieldsPath, type FieldOperation, fieldOperations } from './api.ts';

const ref = (kind: string, name: string) => ({ $ref: `#/components/${kind}/${name}` });
const text = { type: 'string' };
const time = { ...text, format: 'date-time' };
const json = (schema: JsonSchema) => ({ 'application/json': { schema } });

/** The properties of a custom field that can be changed. */
const changeable: Readonly<Record<Exclude<keyof CustomFieldOptions, 'type'>, JsonSchema>> = {
  label: { ...text, description: 'Name for users. Default: derived from `name`.' },
  help: { ...text, description: 'Help for users who enter a value.' },
  enum: { type: 'array', items: text, description: 'Suggested values.' },
  closed: { type: 'boolean', description: 'Whether `enum` contains all accepted values.' },
  min: { type: 'number', description: 'Minimum of numbers.' },
  max: { type: 'number', description: 'Maximum of numbers.' },
  min_length: { type: 'integer', description: 'Minimum number of characters.' },
  max_length: {
    type: 'integer',
    description: 'Maximum number of characters. Default: 255, or 10,000 for `text`.',
  },
  pattern: { ...text, description: 'RE2 regular expression that texts match.' },
  format: { ...text, enum: textFormatNames, description: 'Format of texts.' },
  message: { ...text, description: 'Error message for values that violate a rule.' },
  required: { type: 'boolean', description: 'Whether new records need a value, which cannot be removed.' },
  default: {
    type: ['string', 'number', 'boolean'],
    description: 'Value of new records without a value.',
  },
  group: {
    ...text,
    description: "One of the resource's field groups, whose grants callers need to read or write the values.",
  },
};

const name = { ...text, description: 'Key of the values in the `custom` object of records.' };
const type = { ...text, enum: customTypes };

/** Returns the OpenAPI description of an operation. */
const describe = ({ path, body, success, isCreation, ...operation }: FieldOperation) => ({
  operationId: operation.operationId,
  summary: operation.summary,
  description: operation.description,
  tags: ['fields'],
  ...(operation.operationId === 'listCustomFields' && { parameters: [ref('parameters', 'fields.deleted')] }),
  ...(body !== undefined && { requestBody: { required: true, content: json(ref('schemas', body)) } }),
  responses: {
    [isCreation === true ? 201 : 200]: {
      description: 'Success.',
      ...(isCreation === true && {
        headers: { Location: { description: "The custom field's path.", required: true, schema: text } },
      }),
      content: json(ref('schemas', success)),
    },
    400: ref('responses', 'BadRequest'),
    401: ref('responses', 'Unauthorized'),
    403: ref('responses', 'Forbidden'),
    404: ref('responses', 'NotFound'),
    ...(isCreation === true && { 409: ref('responses', 'CustomFieldExists') }),
    ...(body !== undefined && { 413: ref('responses', 'TooLarge') }),
    500: ref('responses', 'Failure'),
    503: ref('responses', 'Unavailable'),
  },
});

const parameter = (parameterName: string, description: string) => ({
  name: parameterName,
  in: 'path',
  required: true,
  description,
  schema: text,
});

/** The OpenAPI description of custom fields. */
export const customFieldsFragment: Fragment = {
  tag: { name: 'fields', description: "Custom fields: the organization's own fields of records." },
  paths: Object.fromEntries(
    [...Map.groupBy(fieldOperations, ({ path }) => path)].map(([path, all]) => [
      `${customFieldsPath}/{resource}${path.replace(':name', '{name}')}`,
      {
        parameters: [
          parameter('resource', 'Name of a resource with custom fields.'),
          ...(path === '' ? [] : [parameter('name', 'Name of the custom field.')]),
          ref('parameters', 'org'),
        ],
        ...Object.fromEntries(all.map((operation) => [operation.method.toLowerCase(), describe(operation)])),
      },
    ]),
  ),
  parameters: {
    'fields.deleted': {
      name: 'deleted',
      in: 'query',
      description: 'With `true`, lists the deleted custom fields instead, which can be restored.',
      schema: { type: 'boolean', default: false },
    },
  },
  schemas: {
    CustomField: {
      type: 'object',
      required: ['id', 'name', 'type', 'created_at'],
      properties: {
        id: { type: 'integer', format: 'int64' },
        name,
        type,
        ...changeable,
        created_at: time,
        deleted_at: { ...time, description: 'When the field was deleted. Absent unless it was.' },
      },
    },
    CustomFieldList: {
      type: 'object',
      required: ['data'],
      properties: { data: { type: 'array', items: ref('schemas', 'CustomField') } },
    },
    CustomFieldInput: {
      type: 'object',
      required: ['name', 'type'],
      properties: { name, type, ...changeable },
    },
    CustomFieldPatch: {
      type: 'object',
      properties: Object.fromEntries(
        Object.entries(changeable).map(([key, schema]) => [
          key,
          { ...schema, type: [schema.type, 'null'].flat() },
        ]),
      ),
    },
  },
  examples: {
    CustomFieldInput: { name: 'shoe_size', type: 'integer', min: 1, max: 60 },
    CustomFieldPatch: { label: 'Shoe size (EU)' },
  },
};
