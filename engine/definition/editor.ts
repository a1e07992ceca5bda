import { type FieldType, fieldTypes, type JsonSchema } from '../fields/index.ts';
import { type NamedField, querySchemaOf } from '../query/index.ts';
import { hasKey, implies, oneOfSchema, type Parsed, parseYaml, type Source } from '../yaml/index.ts';
import type { RawField } from './definition.ts';
import { reservedFieldNames, serverTypes } from './field.ts';
import { resourceSchema } from './schema.ts';
import { commonName, fileStem, reservedTableNames } from './sources.ts';

/**
 * Returns JSON Schemas for editors by file name: `_resource`, generated from the registries, and one for each file of the
 * instance, which includes the names that the instance defines. Ignores the parts of files that cannot be read.
 */
export function editorSchemas(sources: readonly Source[]): ReadonlyMap<string, JsonSchema> {
  const files = sources.flatMap((source) => {
    const parsed = parseYaml(source, []);
    return parsed === undefined ? [] : [fileOf(parsed, source.isShipped === true)];
  });
  const common = files.find((file) => file.stem === commonName)?.own ?? [];
  const bases = files
    .filter((file) => file.stem !== commonName && file.extended === undefined)
    .map((file) => ({ ...file, fields: [...sharedBy(file.data, common), ...file.own] }));
  const overlays = files.flatMap((file) => {
    const base = bases.find(({ name }) => name === file.extended);
    const known = file.own.map((field) => merged(field, base?.fields ?? []));
    const isKept = ({ name }: ReadField) => !known.some((field) => field.name === name);
    return file.extended === undefined
      ? []
      : [{ ...file, fields: [...(base?.fields ?? []).filter(isKept), ...known] }];
  });
  const extended = bases.map((base) => overlays.find((file) => file.extended === base.name) ?? base);
  return new Map<string, JsonSchema>([
    ['_resource', anyResource],
    ...(files.some((file) => file.stem === commonName && !file.isShipped)
      ? [[commonName, extending({})] as const]
      : []),
    ...[...bases, ...overlays]
      .filter(({ isShipped }) => !isShipped)
      .map((file) => [file.stem, extending(schemaOf(file, extended, common))] as const),
  ]);
}

const extending = (more: JsonSchema): JsonSchema => ({
  $schema: resourceSchema.$schema,
  allOf: [{ $ref: '_resource.json' }],
  ...more,
});

/** A field, as far as its file can be read. */
interface ReadField extends NamedField {
  readonly raw: Partial<RawField>;
}

interface File {
  /** The file name without extension. */
  readonly stem: string;
  readonly name: string;
  readonly isShipped: boolean;
  /** The resource that it extends. */
  readonly extended: string | undefined;
  readonly data: Readonly<Record<string, unknown>>;
  /** The fields that it declares itself. */
  readonly own: readonly ReadField[];
}

/** An unknown type, which has no abilities. */
const noType = {} as FieldType;
const isMap = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

function fileOf({ file, data }: Parsed, isShipped: boolean): File {
  const map = isMap(data) ? data : {};
  const own = Object.entries(isMap(map.fields) ? map.fields : {}).map(([name, value]) => {
    const raw: Partial<RawField> = isMap(value) ? value : {};
    const type = Object.entries(fieldTypes).find(([each]) => each === raw.type)?.[1] ?? noType;
    return { name, raw, type, nullable: raw.nullable === true };
  });
  const extended = typeof map.extends === 'string' ? map.extends : undefined;
  const name = extended ?? fileStem(file);
  return {
    stem: fileStem(file),
    name: typeof map.name === 'string' ? map.name : name,
    isShipped,
    extended,
    data: map,
    own,
  };
}

/** Completes a field of an overlay with the extended field. */
function merged(field: ReadField, base: readonly ReadField[]): ReadField {
  const same = base.find(({ name }) => name === field.name);
  if (same === undefined) return field;
  const raw = { ...same.raw, ...field.raw };
  return {
    ...field,
    raw,
    type: field.raw.type === undefined ? same.type : field.type,
    nullable: raw.nullable === true,
  };
}

/** Returns the shared fields that a file includes. */
const sharedBy = ({ common }: File['data'], shared: readonly ReadField[]): readonly ReadField[] =>
  common === 'all' ? shared : shared.filter(({ name }) => Array.isArray(common) && common.includes(name));

const namesOf = (fields: readonly NamedField[]): string[] => fields.map(({ name }) => name);

/** Returns the schema of a file that follows from the names of the instance. */
function schemaOf(
  { data, extended, fields }: File & { readonly fields: readonly ReadField[] },
  resources: readonly (File & { readonly fields: readonly ReadField[] })[],
  common: readonly ReadField[],
): JsonSchema {
  const inUse = fields.filter(({ raw }) => raw.retired !== true);
  const references = inUse.filter(({ type }) => type.refers === true);
  const shows = references.map(({ name, raw }) => {
    const target = resources.find((each) => each.name === raw.to)?.fields ?? [];
    const texts = namesOf(target.filter(({ type }) => type.text !== undefined));
    return implies(hasKey('through', name), { properties: { show: { items: oneOfSchema(texts) } } });
  });
  const shared = namesOf(sharedBy(data, common));
  const unique = oneOfSchema(namesOf(inUse));
  return {
    properties: {
      common: {
        anyOf: [{ const: 'all' }, { type: 'array', items: oneOfSchema(namesOf(common)), uniqueItems: true }],
      },
      fields: {
        ...(shared.length > 0 && { propertyNames: { not: { enum: shared } } }),
        ...(extended === undefined && keys(shared)),
        additionalProperties: {
          properties: {
            to: oneOfSchema(resources.map(({ name }) => name)),
            through: oneOfSchema(namesOf(references)),
            set: { not: { enum: Object.values(identity) } },
          },
          ...(shows.length > 0 && { allOf: shows }),
        },
      },
      unique: { items: { anyOf: [unique, { type: 'array', items: unique }] } },
      ...querySchemaOf(inUse),
    },
  };
}

/** The fields that every table has, and their server-set values. */
const identity = { id: 'id', organization_id: 'organization' } as const;

/** Requires the {@link identity} fields that the shared fields do not include. */
function keys(shared: readonly string[]): JsonSchema {
  const missing = Object.entries(identity).filter(([name]) => !shared.includes(name));
  return {
    required: missing.map(([name]) => name),
    properties: Object.fromEntries(missing.map(([name, set]) => [name, hasKey('set', set)])),
  };
}

const yes = (key: string): JsonSchema => hasKey(key, true);
const present = (key: string): JsonSchema => ({ required: [key] });
const each = (keys: readonly string[], schema: JsonSchema | false): JsonSchema =>
  Object.fromEntries(keys.map((key) => [key, schema]));
/** Forbids keys. */
const without = (...keys: string[]): JsonSchema => each(keys, false);
/** Forbids true as the value of keys. */
const untrue = (...keys: string[]): JsonSchema => each(keys, { const: false });

/** Dependencies between the keys of a rename, for fields and resources. */
const renames: readonly JsonSchema[] = [
  implies(yes('alias'), { required: ['renamed_from', 'deprecated', 'sunset'] }),
  ...['deprecated', 'sunset'].map((key) => implies(present(key), yes('alias'))),
];

/** Allowed and required keys for each field type. */
const ofType = Object.entries<FieldType>(fieldTypes).map(([name, type]) => {
  const { refers = false, joins = false } = type;
  const sets = Object.entries(serverTypes).flatMap(([set, serverType]) => (serverType === name ? [set] : []));
  const unfilled = type.empty === undefined && !refers && !joins;
  return implies(hasKey('type', name), {
    required: [...(refers ? ['to', 'nullable'] : []), ...(joins ? ['through', 'show'] : [])],
    properties: {
      ...(refers ? { nullable: { const: true } } : without('to')),
      ...(joins
        ? without('nullable', 'default', 'required', 'set', 'retired')
        : { ...without('through', 'show'), default: type.json, set: sets.length > 0 && { enum: sets } }),
      ...(type.bounded ? {} : without('max_length', 'pattern', 'enum', 'suggested', 'lookup')),
      ...(type.distinct ? {} : untrue('unique')),
    },
    ...(unfilled && { anyOf: [present('default'), yes('nullable'), yes('required'), present('set')] }),
  });
});

const rules: readonly JsonSchema[] = [
  ...ofType,
  ...renames,
  { not: { required: ['enum', 'suggested'] } },
  implies(yes('required'), { properties: { ...untrue('read_only', 'nullable'), ...without('default') } }),
  implies(yes('nullable'), { properties: without('default') }),
  implies(present('set'), yes('read_only')),
  implies(yes('retired'), { properties: { ...without('set'), ...untrue('alias') } }),
  implies(yes('unique'), { properties: untrue('read_only') }),
];

const { field } = resourceSchema.$defs;
const types = Object.entries<FieldType>(fieldTypes);

/** The schema of any resource file, generated from the registries. */
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
