import { type FieldType, fieldTypes, type JsonSchema } from '../fields/index.ts';
import { type NamedField, querySchemaOf } from '../query/index.ts';
import { hasKey, implies, oneOfSchema, type Parsed, parseYaml, type Source } from '../yaml/index.ts';
import type { RawField } from './definition.ts';
import { reservedFieldNames, serverTypes } from './field.ts';
import { commonName, fileStem, reservedTableNames, resourceSchema } from './sources.ts';

/**
 * Returns JSON Schemas for editors, keyed by file name: the general schema `_resource`, and a schema for
 * each file of the instance that allows only names defined by the instance. Parts of files that cannot be
 * parsed are ignored.
 */
export function editorSchemas(sources: readonly Source[]): ReadonlyMap<string, JsonSchema> {
  const files = sources.flatMap((source) => {
    const parsed = parseYaml(source, []);
    return parsed === undefined ? [] : [fileOf(parsed, source.isShipped === true)];
  });
  const common = files.find((file) => file.stem === commonName)?.own ?? [];
  const bases = files
    .filter((file) => file.stem !== commonName && file.baseName === undefined)
    .map((file) => ({ ...file, fields: [...sharedFieldsOf(file.data, common), ...file.own] }));
  const overlays = files.flatMap((file) => {
    const base = bases.find(({ name }) => name === file.baseName);
    const ownFields = file.own.map((field) => mergeField(field, base?.fields ?? []));
    const isInherited = ({ name }: FileField) => !ownFields.some((field) => field.name === name);
    return file.baseName === undefined
      ? []
      : [{ ...file, fields: [...(base?.fields ?? []).filter(isInherited), ...ownFields] }];
  });
  const resources = bases.map((base) => overlays.find((file) => file.baseName === base.name) ?? base);
  return new Map<string, JsonSchema>([
    ['_resource', anyResource],
    ...(files.some((file) => file.stem === commonName && !file.isShipped)
      ? [[commonName, resourceFileSchema({})] as const]
      : []),
    ...[...bases, ...overlays]
      .filter(({ isShipped }) => !isShipped)
      .map((file) => [file.stem, resourceFileSchema(schemaOf(file, resources, common))] as const),
  ]);
}

/** Returns a schema that adds keywords to the general schema. */
const resourceFileSchema = (keywords: JsonSchema): JsonSchema => ({
  $schema: resourceSchema.$schema,
  allOf: [{ $ref: '_resource.json' }],
  ...keywords,
});

/** A field from a file that may be invalid. */
interface FileField extends NamedField {
  readonly raw: Partial<RawField>;
}

/** A resource file that may be invalid. */
interface File {
  readonly stem: string;
  readonly name: string;
  readonly isShipped: boolean;
  /** Name of the resource that the file extends. */
  readonly baseName: string | undefined;
  readonly data: Readonly<Record<string, unknown>>;
  /** Fields declared in the file, excluding shared and inherited fields. */
  readonly own: readonly FileField[];
}

/** Placeholder for an unknown type. */
const noType = {} as FieldType;
const isMap = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

function fileOf({ file, data }: Parsed, isShipped: boolean): File {
  const content = isMap(data) ? data : {};
  const own = Object.entries(isMap(content.fields) ? content.fields : {}).map(([name, value]) => {
    const raw: Partial<RawField> = isMap(value) ? value : {};
    const type = Object.entries(fieldTypes).find(([typeName]) => typeName === raw.type)?.[1] ?? noType;
    return { name, raw, type, nullable: raw.nullable === true };
  });
  const baseName = typeof content.extends === 'string' ? content.extends : undefined;
  const name = baseName ?? fileStem(file);
  return {
    stem: fileStem(file),
    name: typeof content.name === 'string' ? content.name : name,
    isShipped,
    baseName,
    data: content,
    own,
  };
}

/** Merges an overlay's field with the field that it changes. */
function mergeField(field: FileField, base: readonly FileField[]): FileField {
  const baseField = base.find(({ name }) => name === field.name);
  if (baseField === undefined) return field;
  const raw = { ...baseField.raw, ...field.raw };
  return {
    ...field,
    raw,
    type: field.raw.type === undefined ? baseField.type : field.type,
    nullable: raw.nullable === true,
  };
}

/** Returns the shared fields that a file includes. */
const sharedFieldsOf = ({ common }: File['data'], shared: readonly FileField[]): readonly FileField[] =>
  common === 'all' ? shared : shared.filter(({ name }) => Array.isArray(common) && common.includes(name));

const namesOf = (fields: readonly NamedField[]): string[] => fields.map(({ name }) => name);

/** Returns the schema of a file, which allows only names defined by the instance. */
function schemaOf(
  { data, baseName, fields }: File & { readonly fields: readonly FileField[] },
  resources: readonly (File & { readonly fields: readonly FileField[] })[],
  common: readonly FileField[],
): JsonSchema {
  const inUse = fields.filter(({ raw }) => raw.retired !== true);
  const references = inUse.filter(({ type }) => type.refers === true);
  const showRules = references.map(({ name, raw }) => {
    const target = resources.find((resource) => resource.name === raw.to)?.fields ?? [];
    const texts = namesOf(target.filter(({ type }) => type.text !== undefined));
    return implies(hasKey('through', name), { properties: { show: { items: oneOfSchema(texts) } } });
  });
  const shared = namesOf(sharedFieldsOf(data, common));
  const unique = oneOfSchema(namesOf(inUse));
  return {
    properties: {
      common: {
        anyOf: [{ const: 'all' }, { type: 'array', items: oneOfSchema(namesOf(common)), uniqueItems: true }],
      },
      fields: {
        ...(shared.length > 0 && { propertyNames: { not: { enum: shared } } }),
        ...(baseName === undefined && requireIdentity(shared)),
        additionalProperties: {
          properties: {
            to: oneOfSchema(resources.map(({ name }) => name)),
            through: oneOfSchema(namesOf(references)),
            set: { not: { enum: Object.values(identity) } },
          },
          ...(showRules.length > 0 && { allOf: showRules }),
        },
      },
      unique: { items: { anyOf: [unique, { type: 'array', items: unique }] } },
      ...querySchemaOf(inUse),
    },
  };
}

/** Fields required in every table, mapped to the value that the server sets. */
const identity = { id: 'id', organization_id: 'organization' } as const;

/** Returns a schema that requires the {@link identity} fields missing from the shared fields. */
function requireIdentity(shared: readonly string[]): JsonSchema {
  const missing = Object.entries(identity).filter(([name]) => !shared.includes(name));
  return {
    required: missing.map(([name]) => name),
    properties: Object.fromEntries(missing.map(([name, set]) => [name, hasKey('set', set)])),
  };
}

/** Returns a condition that requires a key to be true. */
const isTrue = (key: string): JsonSchema => hasKey(key, true);
/** Returns a condition that requires a key to be present. */
const isPresent = (key: string): JsonSchema => ({ required: [key] });
const constrainKeys = (keys: readonly string[], schema: JsonSchema | false): JsonSchema =>
  Object.fromEntries(keys.map((key) => [key, schema]));
/** Returns schema properties that forbid the given keys. */
const forbid = (...keys: string[]): JsonSchema => constrainKeys(keys, false);
/** Returns schema properties that forbid the value true for the given keys. */
const forbidTrue = (...keys: string[]): JsonSchema => constrainKeys(keys, { const: false });

/** Dependencies between the keys that declare a rename of a field or resource. */
const renames: readonly JsonSchema[] = [
  implies(isTrue('alias'), { required: ['renamed_from', 'deprecated', 'sunset'] }),
  ...['deprecated', 'sunset'].map((key) => implies(isPresent(key), isTrue('alias'))),
];

/** Allowed and required keys for each field type. */
const ofType = Object.entries<FieldType>(fieldTypes).map(([name, type]) => {
  const { refers = false, joins = false } = type;
  const sets = Object.entries(serverTypes).flatMap(([set, serverType]) => (serverType === name ? [set] : []));
  const needsValue = type.empty === undefined && !refers && !joins;
  return implies(hasKey('type', name), {
    required: [...(refers ? ['to', 'nullable'] : []), ...(joins ? ['through', 'show'] : [])],
    properties: {
      ...(refers ? { nullable: { const: true } } : forbid('to')),
      ...(joins
        ? forbid('nullable', 'default', 'required', 'set', 'retired')
        : { ...forbid('through', 'show'), default: type.json, set: sets.length > 0 && { enum: sets } }),
      ...(type.bounded ? {} : forbid('max_length', 'pattern', 'enum', 'suggested', 'lookup')),
      ...(type.distinct ? {} : forbidTrue('unique')),
    },
    ...(needsValue && {
      anyOf: [isPresent('default'), isTrue('nullable'), isTrue('required'), isPresent('set')],
    }),
  });
});

const rules: readonly JsonSchema[] = [
  ...ofType,
  ...renames,
  { not: { required: ['enum', 'suggested'] } },
  implies(isTrue('required'), {
    properties: { ...forbidTrue('read_only', 'nullable'), ...forbid('default') },
  }),
  implies(isTrue('nullable'), { properties: forbid('default') }),
  implies(isPresent('set'), isTrue('read_only')),
  // An overlay can change a field without repeating its type.
  implies(
    { allOf: [isTrue('assignable'), isPresent('type')] },
    { required: ['set'], properties: { set: { const: 'creator' } } },
  ),
  implies(isTrue('retired'), { properties: { ...forbid('set'), ...forbidTrue('alias') } }),
  implies(isTrue('unique'), { properties: forbidTrue('read_only') }),
];

const { field } = resourceSchema.$defs;
const types = Object.entries<FieldType>(fieldTypes);

/** Schema of any resource file, generated from the field types and query parts. */
const anyResource: JsonSchema = {
  ...resourceSchema,
  allOf: renames,
  properties: {
    ...resourceSchema.properties,
    name: { ...resourceSchema.properties.name, not: { pattern: reservedTableNames.source } },
    fields: {
      ...resourceSchema.properties.fields,
      propertyNames: {
        ...resourceSchema.properties.fields.propertyNames,
        not: { enum: [...reservedFieldNames] },
      },
    },
  },
  $defs: {
    ...resourceSchema.$defs,
    field: {
      ...field,
      properties: {
        ...field.properties,
        type: {
          ...field.properties.type,
          enum: types.map(([name]) => name),
          enumDescriptions: types.map(
            ([, { expected, examples }]) =>
              `Values are ${expected}; for example ${JSON.stringify(examples[0])}.`,
          ),
        },
      },
      examples: [{ type: 'string', description: 'What the customer calls it.' }],
      allOf: rules,
    },
  },
};
