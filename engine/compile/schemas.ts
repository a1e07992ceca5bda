import type { ResourceDefinition, Unique } from '../definition/index.ts';
import type { Expression } from '../expressions/index.ts';
import {
  type Field,
  hasCustomFields,
  type JsonSchema,
  maxReferences,
  type RollupFunction,
  refersToMany,
  refersToUser,
  rulesOf,
  type Transitions,
  transitionScope,
} from '../fields/index.ts';
import {
  combinations,
  isReferenceList,
  maxFilterValues,
  maxListed,
  maxSortKeys,
  whereLimits,
} from '../query/index.ts';
import {
  type FormatName,
  formatNames,
  formatOf,
  maxBulk,
  maxGroups,
  maxItems,
  trashedAt,
  valueSchemas,
} from '../records/index.ts';

/** Returns a reference to a component of the OpenAPI document. */
export const ref = (kind: string, name: string) => ({ $ref: `#/components/${kind}/${name}` });
/** Converts a name from snake case to Pascal case, for schemas and operation IDs. */
export const pascal = (name: string) =>
  name.replace(/(?:^|_)([a-z0-9])/g, (_, letter) => letter.toUpperCase());

/** Returns the name of the schema for multiple records in this format. */
export const linesSchema = (recordName: string, format: FormatName): string =>
  `${recordName}${pascal(format)}`;

/** Returns the schemas of an aggregate's groups, by name. */
export const aggregateSchemas = (
  definition: ResourceDefinition,
  recordName: string,
): Readonly<Record<string, JsonSchema>> => ({
  [`${recordName}Aggregates`]: {
    type: 'object',
    description: `Groups of ${definition.name}. Each has the requested properties.`,
    required: ['data'],
    properties: {
      data: {
        type: 'array',
        maxItems: maxGroups,
        items: { type: 'object', properties: valueSchemas(definition) },
      },
    },
  },
  ...Object.fromEntries(
    formatNames.map((format) => [
      linesSchema(`${recordName}Aggregates`, format),
      { type: 'string', description: `Groups of ${definition.name} as ${formatOf(format).type}.` },
    ]),
  ),
});

/** Returns the schema of a page of records. @param more additional properties */
export const pageSchema = (
  definition: ResourceDefinition,
  recordName: string,
  more: Readonly<Record<string, JsonSchema>> = {},
): JsonSchema => ({
  type: 'object',
  description: `A page of ${definition.name}.`,
  required: ['data', 'page', 'per_page', ...Object.keys(more)],
  properties: {
    data: {
      type: 'array',
      maxItems: definition.page.size,
      items: ref('schemas', projectionSchemaName(recordName)),
    },
    page: { type: 'integer', minimum: 1, description: 'The requested page.' },
    per_page: { type: 'integer', const: definition.page.size },
    ...more,
  },
});

/** Returns the schemas of a query's body, of its conditions and of its response, by name. */
export function querySchemas(
  definition: ResourceDefinition,
  recordName: string,
): Readonly<Record<string, JsonSchema>> {
  const condition = `${recordName}Condition`;
  const members = {
    type: 'array',
    minItems: 1,
    maxItems: whereLimits.conditions,
    items: ref('schemas', condition),
  };
  const operators = new Set(
    definition.filters.flatMap(({ parameters }) => parameters.map(({ operator }) => operator)),
  );
  const isCustom = hasCustomFields(definition);
  const scalar = { type: ['string', 'number', 'boolean'] };
  const names = { type: 'array', items: { type: 'string' } };
  return {
    [condition]: {
      description: `A condition on a field that has a filter, or a group of conditions: \`all\`, \`any\`, or \`not\`, which matches every record that does not meet the condition, also those without a value. Groups can be nested up to ${whereLimits.depth} deep and contain up to ${whereLimits.conditions} conditions and ${whereLimits.values} values in total.`,
      anyOf: [
        {
          type: 'object',
          required: ['field', 'op', 'value'],
          properties: {
            field: {
              type: 'string',
              description: `The name of a field with a filter: ${[...definition.filters.map(({ name }) => `\`${name}\``), ...(isCustom ? ['custom fields'] : [])].join(', ')}.`,
            },
            // Custom fields have the operators of their types.
            op: { type: 'string', ...(operators.size > 0 && !isCustom && { enum: [...operators] }) },
            value: {
              description: 'A value as in a URL, or a list of values where the URL can repeat the parameter.',
              anyOf: [scalar, { type: 'array', minItems: 1, maxItems: maxFilterValues, items: scalar }],
            },
          },
        },
        ...combinations.map((name) => ({
          type: 'object',
          required: [name],
          properties: { [name]: name === 'not' ? ref('schemas', condition) : members },
        })),
      ],
    },
    [`${recordName}Query`]: {
      type: 'object',
      description: 'Which records to return, and how. All properties are optional.',
      properties: {
        where: ref('schemas', condition),
        sort: {
          type: 'string',
          description: `Up to ${maxSortKeys} comma-separated fields, each in ascending order or, after \`-\`, in descending order.`,
        },
        dir: { type: 'string', description: 'As in the URL of a list: `asc` or `desc`.' },
        fields: { ...names, description: 'Limits records to `id` and these fields.' },
        expand: { ...names, description: 'Names of related records to return.' },
        q: { type: 'string', description: 'Words that must all occur in a record.' },
        cursor: {
          type: ['string', 'null'],
          description:
            'The value of `next` in the previous page. All other properties must be the same as for that page.',
        },
      },
    },
    [`${recordName}QueryPage`]: pageSchema(definition, recordName, {
      next: {
        type: ['string', 'null'],
        description: 'The `cursor` of the next page, or null on the last page.',
      },
    }),
  };
}

/** Returns the schema of a batch body. @param uniques sets of unique fields that can identify a record */
export function batchSchema(record: JsonSchema, uniques: readonly Unique[] = []): JsonSchema {
  return {
    type: 'object',
    required: ['records'],
    properties: {
      records: { type: 'array', minItems: 1, maxItems, items: record },
      ...(uniques.length > 0 && {
        match: {
          description:
            'Existing records with the same values in these fields are updated instead of created.',
          enum: uniques.map((unique) => unique.map(({ name }) => name)),
          type: 'array',
          items: { type: 'string' },
        },
      }),
      on_error: onError,
    },
  };
}

const onError = {
  type: 'string',
  enum: ['stop', 'continue'],
  default: 'stop',
  description: '`stop` writes all records, or none if any is invalid. `continue` writes the valid records.',
};

/** Schema of the users returned by `?expand=`. */
export const referencedUserSchema: JsonSchema = {
  type: 'object',
  description: 'A user to whom a record refers.',
  required: ['id', 'name'],
  properties: {
    id: { type: 'integer', format: 'int64' },
    name: {
      type: ['string', 'null'],
      description: "The person's name, or null if it has not been entered.",
    },
    email: {
      type: 'string',
      description: 'Only for members, and only if the caller has the grant `list` on `members`.',
    },
    former: {
      const: true,
      type: 'boolean',
      description: 'Only for users who are no longer members of the organization.',
    },
  },
};

/** Batch schemas shared by all resources. */
export const batchSchemas: Readonly<Record<string, JsonSchema>> = {
  MergeSource: {
    type: 'object',
    required: ['from'],
    properties: {
      from: { type: 'integer', format: 'int64', description: 'ID of the record to merge into this one.' },
    },
  },
  BulkResult: {
    type: 'object',
    required: ['count'],
    properties: {
      count: { type: 'integer', minimum: 0, maximum: maxBulk, description: 'Number of records.' },
      confirm: {
        type: 'string',
        description: 'The value of the parameter `confirm`. Absent if the records were written.',
      },
    },
  },
  BatchIds: {
    type: 'object',
    required: ['ids'],
    properties: {
      ids: { type: 'array', minItems: 1, maxItems, items: { type: 'integer', format: 'int64' } },
      on_error: onError,
    },
  },
  BatchResults: {
    type: 'object',
    required: ['results'],
    properties: {
      results: {
        type: 'array',
        description: 'One result per record, in request order.',
        minItems: 1,
        maxItems,
        items: { oneOf: [ref('schemas', 'BatchSuccess'), ref('schemas', 'BatchFailure')] },
      },
    },
  },
  BatchSuccess: {
    type: 'object',
    required: ['status', 'id'],
    properties: {
      status: {
        type: 'integer',
        enum: [200, 201],
        description: '201 if the record was created, 200 if it was updated or deleted.',
      },
      id: { type: 'integer', format: 'int64' },
    },
  },
  BatchFailure: {
    type: 'object',
    description: 'With `on_error: continue`, the reason why a record was not written.',
    required: ['status', 'error', 'code'],
    properties: {
      status: { type: 'integer', enum: [400, 403, 404, 409] },
      error: ref('schemas', 'ErrorMessage'),
      hint: ref('schemas', 'Hint'),
      code: ref('schemas', 'ErrorCode'),
      fields: ref('schemas', 'FieldErrors'),
      more: ref('schemas', 'OmittedFields'),
      existing_id: ref('schemas', 'ExistingId'),
      constraint: ref('schemas', 'RejectedConstraint'),
      referrers: ref('schemas', 'Referrers'),
      grant: ref('schemas', 'MissingGrant'),
    },
  },
};

/** Returns the fields that a body can set, including aliases for former names. */
const writableOf = (fields: readonly Field[]) =>
  fields.filter(({ readOnly, aliasOf }) => !(aliasOf ?? { readOnly }).readOnly);

/** Returns a sentence about the conditions that every record must meet, or an empty string. */
const checksNote = (checks: ResourceDefinition['checks']): string =>
  checks.length === 0
    ? ''
    : ` Every record must meet ${checks.map(({ condition }) => `\`${condition.source}\``).join(' and ')}.`;

/** A list of children that bodies can contain. */
export interface NestedList {
  readonly name: string;
  readonly reference: Field;
  readonly child: ResourceDefinition;
  /** Name of the schema of the children in a body. */
  readonly schema: string;
  /** Name of the schema of the children in a response. */
  readonly recordName: string;
}

/** Returns the lists of children that the bodies of a resource can contain. */
export const nestedLists = (
  { expansion, singular }: ResourceDefinition,
  definitions: readonly ResourceDefinition[],
): readonly NestedList[] =>
  expansion.flatMap(({ name, to, reference, isWritable }) => {
    const child = definitions.find((definition) => definition.name === to);
    if (isWritable !== true || child === undefined) return [];
    const schema = `${pascal(singular)}${pascal(name)}Item`;
    return [{ name, reference, child, schema, recordName: pascal(child.singular) }];
  });

/** Returns the schema of a child in a body. */
export function nestedSchema({ child, reference }: NestedList): JsonSchema {
  const fields = child.fields.filter((field) => (field.aliasOf ?? field).name !== reference.name);
  const { description, properties, ...rest } = inputSchema({ ...child, fields }, `a record of ${child.name}`);
  return {
    ...rest,
    description: `${description} The server sets \`${reference.name}\`.`,
    properties: {
      id: {
        type: ['integer', 'null'],
        format: 'int64',
        description:
          'ID of the existing record that the item replaces. Ignored if the request creates the parent record.',
      },
      ...(properties as object),
    },
  };
}

/** Returns the schemas of lists of children in a body, by name. */
const nestedProperties = (lists: readonly NestedList[]): Readonly<Record<string, JsonSchema>> =>
  Object.fromEntries(
    lists.map(({ name, child, schema }) => [
      name,
      {
        type: 'array',
        maxItems,
        description: `All records of ${child.name} in the list. Items with an \`id\` replace existing records, other items are created, and existing records that are not in the list are deleted. If the list is absent, its records are kept.`,
        items: ref('schemas', schema),
      },
    ]),
  );

/** Returns the schema of a body that creates or replaces a record. */
export function inputSchema(
  { fields, checks, defaults }: ResourceDefinition,
  aRecord: string,
  lists: readonly NestedList[] = [],
): JsonSchema {
  const writable = writableOf(fields);
  const required = writable.filter((field) => field.required).map((field) => field.name);
  return {
    type: 'object',
    description: `The writable fields of ${aRecord}. Unknown keys are ignored. Null is treated as absent. An absent field is set to its default: \`""\`, 0 or null unless its description says otherwise.${checksNote(checks)}`,
    ...(required.length > 0 && { required }),
    properties: {
      ...Object.fromEntries(
        writable.map((field) => [field.name, fieldInputSchema(field, defaults.get(field.name))]),
      ),
      ...nestedProperties(lists),
    },
  };
}

/** Returns the schema of a body that updates a record. */
export function patchSchema(
  { fields, checks }: ResourceDefinition,
  aRecord: string,
  lists: readonly NestedList[] = [],
): JsonSchema {
  const writable = writableOf(fields);
  return {
    type: 'object',
    description: `The fields to change in ${aRecord}. Unknown keys are ignored. Null resets a field to its default.${checksNote(checks)}`,
    properties: {
      ...Object.fromEntries(writable.map((field) => [field.name, boundedSchema(field)])),
      ...nestedProperties(lists),
    },
  };
}

/** Returns the schema of a complete record, as returned by writes and by `?expand=`. */
export const recordSchema = (
  { fields, description, label }: ResourceDefinition,
  lists: readonly NestedList[] = [],
): JsonSchema => ({
  type: 'object',
  ...(label.one !== undefined && { title: label.one }),
  description: description || undefined,
  // Callers without a grant on a field's group do not see the field.
  required: fields.filter(({ group }) => group === undefined).map(({ name }) => name),
  properties: { ...fieldSchemas(fields), ...(lists.length > 0 && writtenSchema(lists)) },
});

/** Returns the schema of the property that contains children written together with a record. */
const writtenSchema = (lists: readonly NestedList[]): Readonly<Record<string, JsonSchema>> => ({
  expanded: {
    type: 'object',
    readOnly: true,
    description:
      'The lists of children in the request, as written. Absent if the request did not contain any.',
    properties: Object.fromEntries(
      lists.map(({ name, recordName }) => [
        name,
        expandedListSchema(
          ref('schemas', recordName),
          'The written records, in the order of the list.',
          maxItems,
        ),
      ]),
    ),
  },
});

/** Returns the schema name of records returned by reads. */
export const projectionSchemaName = (recordName: string): string => `${recordName}Projection`;

/**
 * Returns the schema of a record returned by reads. In OpenAPI, a response cannot depend on a parameter, so every field
 * that `?fields=` can omit is optional. It is a separate schema, not a union with the complete record: a union would
 * accept the same responses, and many client generators do not support unions.
 */
export const projectionSchema = (
  definition: ResourceDefinition,
  definitions: readonly ResourceDefinition[],
  aRecord: string,
): JsonSchema => ({
  type: 'object',
  description: `${aRecord.replace(/^a/, 'A')} with the fields in \`?fields=\`, or with all fields if the request has no \`fields\`.`,
  required: ['id'],
  properties: {
    ...fieldSchemas(definition.fields),
    ...(definition.trash !== undefined && fieldSchemas([trashedAt])),
    ...expandedSchema(definition, definitions),
  },
});

/** Returns the fields' response schemas, by field name. */
const fieldSchemas = (fields: readonly Field[]): Readonly<Record<string, JsonSchema>> =>
  Object.fromEntries(
    fields.map((field) => [
      field.name,
      { ...valueSchema(field, field.nullable), ...(field.readOnly && { readOnly: true }) },
    ]),
  );

/** Returns the schema of the property that `?expand=` adds, or an empty object if no resources are related. */
function expandedSchema(
  { expansion }: ResourceDefinition,
  definitions: readonly ResourceDefinition[],
): Readonly<Record<string, JsonSchema>> {
  if (expansion.length === 0) return {};
  const properties = expansion.map((relation) => {
    const { name, to, reference, isList, order, alternatives = [] } = relation;
    if (alternatives.length > 0) return [name, anyRecordSchema(alternatives, definitions)];
    const target = definitions.find((item) => item.name === to);
    const schema = ref(
      'schemas',
      !isList && refersToUser(reference) ? 'ReferencedUser' : pascal(target?.singular ?? ''),
    );
    if (isReferenceList(relation))
      return [name, { type: 'array', description: 'The records, ordered by ID.', items: schema }];
    const description =
      order && `The first records that refer to this record, ordered by \`${order.field.name}\`.`;
    return [name, isList ? expandedListSchema(schema, description) : { anyOf: [schema, { type: 'null' }] }];
  });
  return {
    expanded: {
      type: 'object',
      readOnly: true,
      description:
        'The related records and users named in `?expand=`. Records that are expanded on the second level are in the `expanded` property of these records. Absent without `expand`.',
      properties: Object.fromEntries(properties),
    },
  };
}

/** Returns the schema of the expanded record of a reference to one of several resources. */
const anyRecordSchema = (
  alternatives: ResourceDefinition['expansion'],
  definitions: readonly ResourceDefinition[],
): JsonSchema => ({
  description: 'The record, with the additional key `resource`, which contains the name of its resource.',
  anyOf: [
    ...alternatives.map(({ to }) =>
      ref('schemas', pascal(definitions.find(({ name }) => name === to)?.singular ?? '')),
    ),
    { type: 'null' },
  ],
});

/** Returns the schema of an expanded list. */
const expandedListSchema = (
  record: JsonSchema,
  description = 'The first records that refer to this record, in their default order.',
  maxItems = maxListed,
): JsonSchema => ({
  type: 'object',
  required: ['data', 'has_more', 'url'],
  properties: {
    data: {
      type: 'array',
      description,
      maxItems,
      items: record,
    },
    has_more: { type: 'boolean', description: 'Whether there are more records.' },
    url: {
      type: 'string',
      description: 'Path of the complete list.',
    },
  },
});

/** Returns the schema of a field in a body. Null counts as absent unless the field is required. */
export function fieldInputSchema(field: Field, expression?: Expression): JsonSchema {
  const schema = boundedSchema(field);
  const hasDefault = !field.required && field.default !== null && field.default !== field.type.empty;
  if (expression === undefined && !hasDefault) return schema;
  // Not "default": client generators would make the property required or always send it.
  const text =
    expression === undefined
      ? `Default: \`${typeof field.default === 'object' ? JSON.stringify(field.default) : field.default}\`.`
      : `Default in a new record: \`${expression.source}\`. Null is stored as null.`;
  return { ...schema, description: 'description' in schema ? `${schema.description} ${text}` : text };
}

/** Returns the schema of a stored value that can be null. */
export const storedValueSchema = (field: Field): JsonSchema => valueSchema(field, true);

/** Returns the schema of a value in a body, with its rules. */
export const boundedSchema = (field: Field): JsonSchema =>
  Object.assign(
    valueSchema(field, !field.required),
    refersToMany(field) && { maxItems: maxReferences },
    ...rulesOf(field).map(({ json }) => json),
    field.type.priced === true && { properties: moneyProperties(field) },
  );

/** Returns the properties of an amount of money in a body, with its rules. */
const moneyProperties = (field: Field): JsonSchema => {
  const { amount, ...others } = field.type.json.properties as Readonly<Record<string, JsonSchema>>;
  const rules = rulesOf(field).map(({ json }) => (json.properties as { readonly amount: JsonSchema }).amount);
  return { amount: Object.assign({}, amount, ...rules), ...others };
};

/** Returns the schemas of references to one of several resources, by schema name. */
export const referenceSchemas = (fields: readonly Field[]): Readonly<Record<string, JsonSchema>> =>
  Object.fromEntries(
    fields
      .filter(({ alternatives }) => alternatives !== undefined)
      .map((field) => [
        referenceSchemaName(field),
        { ...field.type.json, description: 'A reference to a record of one of several resources.' },
      ]),
  );

/** Returns a name such as `LeadOrContactReference`, which fields with the same resources share. */
const referenceSchemaName = ({ name, alternatives = [] }: Field): string =>
  `${alternatives
    .map((alternative) => pascal(alternative.name.slice(name.length + 1).replace(/_id$/, '')))
    .join('Or')}Reference`;

/** Returns the schema of a JSON value, which can be null. */
function jsonSchema(field: Field, orNull: boolean): JsonSchema {
  const { json } = field.type;
  if (field.schema !== undefined && isSelfContained(field.schema))
    return { anyOf: [field.schema, ...(orNull ? [{ type: 'null' }] : [])] };
  if (field.alternatives === undefined)
    return { ...json, ...(orNull && { type: [json.type, 'null'].flat() }) };
  const reference = ref('schemas', referenceSchemaName(field));
  return orNull ? { anyOf: [reference, { type: 'null' }] } : reference;
}

/** Returns whether a schema can be part of another document, because it contains no references and identifiers. */
const isSelfContained = (schema: JsonSchema): boolean =>
  !/"\$(ref|id|anchor|dynamicRef|dynamicAnchor|schema|defs)":/.test(JSON.stringify(schema));

/** Returns the schema of a value in a response. */
function valueSchema(field: Field, orNull: boolean): Record<string, unknown> {
  const { values } = field;
  const description = [
    field.description,
    knownValues(field),
    transitionsNote(field),
    sequenceNote(field),
    derivedNote(field),
    groupNote(field),
  ]
    .filter((text) => text !== '')
    .join(' ');
  const isList = field.type.element !== undefined;
  const keywords: JsonSchema = {
    // Not "enum": any string is accepted and may be returned, and generated clients must accept it.
    ...(values !== undefined &&
      values.accepted === undefined && { examples: values.list, 'x-extensible-enum': values.list }),
    ...(values?.accepted && { enum: [...values.accepted, ...(orNull && !isList ? [null] : [])] }),
  };
  return {
    ...jsonSchema(field, orNull),
    ...(field.label !== undefined && { title: field.label }),
    ...(description !== '' && { description }),
    ...(field.aliasOf && { deprecated: true }),
    ...(isList && values !== undefined
      ? { items: { ...field.type.element?.schema, ...keywords } }
      : keywords),
  };
}

/** Returns a sentence about the changes that are allowed to the field's value, or an empty string. */
function transitionsNote({ transitions }: Field): string {
  if (transitions === undefined) return '';
  const listOf = (values: readonly string[]) => values.map((value) => `\`${value}\``).join(', ');
  const changes = [...transitions.next]
    .filter(([, to]) => to.length > 0)
    .map(
      ([from, to]) =>
        `from \`${from}\` to ${to.map((value) => targetText(transitions, from, value)).join(', ')}`,
    );
  const rule = changes.length === 0 ? 'cannot change' : `can change ${changes.join('; ')}`;
  return `A new record can have ${listOf(transitions.initial)}. The value ${rule}.`;
}

/** Returns a value to which a field can change, and the scope to which the change is limited. */
function targetText(transitions: Transitions, from: string, to: string): string {
  const scope = transitionScope(transitions, from, to);
  return `\`${to}\`${scope === undefined ? '' : ` (only in the scope \`${scope}\`)`}`;
}

/** Returns a sentence about the field's sequence, or an empty string. */
const sequenceNote = ({ sequence, aliasOf }: Field): string =>
  sequence === undefined || aliasOf !== undefined
    ? ''
    : `Numbers the organization's records in the format \`${sequence.format}\`. Null in records that are older than the numbering.`;

/** Returns a sentence about the calculation of the field's value, or an empty string. */
function derivedNote({ computed, rollup }: Field): string {
  if (computed !== undefined) return `Calculated: \`${computed.source}\`.`;
  if (rollup === undefined) return '';
  const { function: name, field, of, by, condition } = rollup;
  const value = `${rollupWords[name]}${field === undefined ? '' : ` of \`${field.name}\``}`;
  const where = condition === undefined ? '' : ` and meet \`${condition.source}\``;
  return `${value} of all \`${of}\` that refer to the record through \`${by}\`${where}.`;
}

/** Words for the functions of rollups. */
const rollupWords: Readonly<Record<RollupFunction, string>> = {
  count: 'Number',
  sum: 'Sum',
  min: 'Minimum',
  max: 'Maximum',
  avg: 'Average',
};

/** Returns a sentence about the field's group, or an empty string. */
const groupNote = ({ group, computed, rollup }: Field): string =>
  group === undefined
    ? ''
    : `Visible${computed === undefined && rollup === undefined ? ' and writable' : ''} only with grants on the field group \`${group}\`.`;

/** Returns a sentence that lists the field's known values, or an empty string. */
function knownValues({ values, type }: Field): string {
  if (values === undefined) return '';
  const list = values.list.map((value) => `\`${value}\``).join(', ');
  if (type.element !== undefined) {
    const note = values.accepted === undefined ? ' Any other string is also accepted.' : '';
    return `Values: ${list}.${note}`;
  }
  if (values.accepted !== undefined) return `One of ${list}.`;
  return !values.isSuggestion
    ? `One of ${list}. Any other string is also accepted, but filters and reports recognize only these values.`
    : `Suggested: ${list}.`;
}
