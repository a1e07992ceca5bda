import {
  alternativesType,
  anyCurrency,
  canRollUp,
  currencyCodes,
  customName,
  type FieldType,
  fieldTypeNamed,
  fieldTypes,
  isComputable,
  type JsonSchema,
  ruleKeys,
  supportsRule,
} from '../fields/index.ts';
import { type NamedField, querySchemaOf } from '../query/index.ts';
import { hasKey, implies, oneOfSchema, type Parsed, parseYaml, type Source } from '../yaml/index.ts';
import { isGroupable, isMeasurable } from './aggregates.ts';
import type { RawField } from './definition.ts';
import {
  derivedKey,
  derivedKeys,
  isDerivedNullable,
  rollupFunctions,
  storedOnlyFlags,
  storedOnlyKeys,
  withoutStorage,
} from './derived.ts';
import { reservedFieldNames, serverTypes } from './field.ts';
import { reservedScopeNames } from './scopes.ts';
import { sequenceConflicts } from './sequences.ts';
import { commonName, fileStem, reservedTableNames, resourceSchema } from './sources.ts';
import { trashNames } from './trash.ts';

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
  const own = Object.entries(isMap(content.fields) ? content.fields : {}).map(([name, value]) =>
    fileField(name, isMap(value) ? value : {}),
  );
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

function fileField(name: string, raw: Partial<RawField>): FileField {
  const declaredType = fieldTypeNamed(raw.type) ?? noType;
  const { currency: _, ...fixedType } = declaredType;
  const type = raw.currency === anyCurrency ? declaredType : fixedType;
  if (type.refers === true && Array.isArray(raw.to))
    return { name, raw, type: alternativesType([]), nullable: raw.nullable === true };
  const key = derivedKey(raw);
  const isValid = key !== 'rollup' || isMap(raw.rollup);
  const nullable = key !== undefined && isValid ? isDerivedNullable(raw, type) : raw.nullable === true;
  return { name, raw, type: withoutStorage(type, raw), nullable };
}

/** Merges an overlay's field with the field that it changes. */
function mergeField(field: FileField, base: readonly FileField[]): FileField {
  const baseField = base.find(({ name }) => name === field.name);
  return baseField === undefined ? field : fileField(field.name, { ...baseField.raw, ...field.raw });
}

/** Returns the shared fields that a file includes. */
function sharedFieldsOf({ common }: File['data'], shared: readonly FileField[]): readonly FileField[] {
  if (common === 'all') return shared;
  if (common === 'none') return shared.filter(({ name }) => Object.hasOwn(identity, name));
  return shared.filter(({ name }) => Array.isArray(common) && common.includes(name));
}

const namesOf = (fields: readonly Pick<NamedField, 'name'>[]): string[] => fields.map(({ name }) => name);

/** Returns the schema of a file, which allows only names defined by the instance. */
function schemaOf(
  { name: ownName, data, baseName, fields }: File & { readonly fields: readonly FileField[] },
  resources: readonly (File & { readonly fields: readonly FileField[] })[],
  common: readonly FileField[],
): JsonSchema {
  const inUse = fields.filter(({ raw }) => raw.retired !== true);
  const resourceNames = resources.map(({ name }) => name);
  const usedNames = namesOfUsed(resources);
  const isRetired = data.retired === true;
  // A joined field cannot follow a reference to one of several resources.
  const references = inUse.filter(({ type, raw }) => type.refers === true && typeof raw.to !== 'object');
  const showRules = references.map(({ name, raw }) => {
    const target = resources.find((resource) => resource.name === raw.to)?.fields ?? [];
    const texts = namesOf(target.filter(({ type }) => type.text !== undefined));
    return implies(hasKey('through', name), { properties: { show: { items: oneOfSchema(texts) } } });
  });
  const sharedFields = sharedFieldsOf(data, common);
  const owners = namesOf(sharedFields.filter(({ raw }) => raw.set === 'creator'));
  const shared = namesOf(sharedFields);
  const fixed = shared.filter((name) => !owners.includes(name));
  const unique = oneOfSchema(namesOf(inUse));
  return {
    properties: {
      common: {
        anyOf: [
          { enum: ['all', 'none'] },
          { type: 'array', items: oneOfSchema(namesOf(common)), uniqueItems: true },
        ],
      },
      fields: {
        ...(fixed.length > 0 && { propertyNames: { not: { enum: fixed } } }),
        ...(baseName === undefined && {
          ...requireIdentity(shared),
          // Only a shared owner can be changed without repeating its type.
          allOf: [
            {
              properties: constrainKeys(owners, { required: ['assignable'], maxProperties: 1 }),
              additionalProperties: { required: ['type'] },
            },
          ],
        }),
        additionalProperties: {
          properties: {
            to: targetSchema(resourceNames),
            through: oneOfSchema(namesOf(references.filter(({ type }) => type.element === undefined))),
            set: { not: { enum: Object.values(identity) } },
            rollup: rollupSchema(
              ownName,
              resources.filter(({ name }) => usedNames.includes(name)),
            ),
          },
          allOf: [
            ...showRules,
            // Only records that are not used any longer can refer to a retired resource.
            isRetired
              ? true
              : implies({ not: isTrue('retired') }, { properties: { to: targetSchema(usedNames) } }),
          ],
        },
      },
      unique: { items: { anyOf: [unique, { type: 'array', items: unique }] } },
      checks: {
        items: {
          properties: {
            fields: {
              items: oneOfSchema(
                namesOf(inUse.filter(({ raw }) => raw.read_only !== true && derivedKey(raw) === undefined)),
              ),
            },
          },
        },
      },
      screen: screenSchema(inUse),
      aggregates: aggregatesSchema(inUse),
      ...(inUse.some(({ name }) => trashNames.includes(name)) && { trash: false }),
      ...(fields.some(({ name }) => name === customName) && { custom_fields: { const: false } }),
      children: childrenSchema(
        ownName,
        inUse,
        resources.filter(({ name }) => usedNames.includes(name)),
      ),
      ...querySchemaOf(inUse),
    },
  };
}

/** Returns the schema of a rollup, which allows only existing references to the resource, and suitable fields. */
const rollupSchema = (
  name: string,
  resources: readonly (File & { readonly fields: readonly FileField[] })[],
): JsonSchema => ({
  properties: { of: oneOfSchema(namesOf(resources)) },
  allOf: [
    true,
    ...resources.map((resource) => {
      const combinable = resource.fields.filter(
        ({ type, raw }) => canRollUp(type) && type.order !== undefined && raw.currency !== anyCurrency,
      );
      const numeric = combinable.filter(({ type }) => type.calculated !== undefined);
      return implies(hasKey('of', resource.name), {
        properties: {
          by: oneOfSchema(referencesTo(name, resource.fields)),
          ...constrainKeys(['sum', 'avg'], oneOfSchema(namesOf(numeric))),
          ...constrainKeys(['min', 'max'], oneOfSchema(namesOf(combinable))),
        },
      });
    }),
  ],
});

/** Returns the names of the fields that refer to a resource, and to no other. */
const referencesTo = (resource: string, fields: readonly FileField[]): string[] =>
  namesOf(
    fields.filter(
      ({ type, raw }) => type.refers === true && type.element === undefined && raw.to === resource,
    ),
  );

/** Returns the names of the resources that are not retired. */
const namesOfUsed = (resources: readonly File[]): string[] =>
  resources.flatMap(({ name, data }) => (data.retired === true ? [] : [name]));

/** Returns the schema of a reference's target, which allows only these resources. */
const targetSchema = (names: readonly string[]): JsonSchema => ({
  anyOf: [oneOfSchema(names), { type: 'array', items: oneOfSchema(names), minItems: 2, uniqueItems: true }],
});

/** Returns the schema of a screen, which allows only suitable fields. */
const screenSchema = (fields: readonly FileField[]): JsonSchema => ({
  properties: {
    title: {
      items: oneOfSchema(
        namesOf(
          fields.filter(
            ({ type, raw }) =>
              type.refers !== true && type.users !== true && raw.set !== 'creator' && raw.set !== 'editor',
          ),
        ),
      ),
    },
    columns: { items: oneOfSchema(namesOf(fields)) },
    board: oneOfSchema(
      namesOf(fields.filter(({ type, raw }) => raw.enum !== undefined && type.element === undefined)),
    ),
  },
});

/** Returns the schema of aggregates, which allows only suitable fields. */
const aggregatesSchema = (fields: readonly NamedField[]): JsonSchema => ({
  properties: {
    group_by: {
      items: oneOfSchema(
        fields.flatMap(({ name, type }) => [
          ...(isGroupable(type) ? [name] : []),
          ...(type.currency === undefined ? [] : [`${name}.currency`]),
        ]),
      ),
    },
    measures: { items: oneOfSchema(namesOf(fields.filter(({ type }) => isMeasurable(type)))) },
  },
});

/** Returns the schema of the lists of children, which allows only existing references to the resource. */
function childrenSchema(
  name: string,
  fields: readonly NamedField[],
  resources: readonly (File & { readonly fields: readonly FileField[] })[],
): JsonSchema {
  const ofResource = resources.map((resource) => {
    const { fields: childFields } = resource;
    const references = referencesTo(name, childFields);
    const sortable = oneOfSchema(
      namesOf(childFields.filter(({ type, raw }) => type.order !== undefined && raw.group === undefined)),
    );
    const readOnly = namesOf(childFields.filter(({ raw }) => raw.read_only === true));
    return implies(hasKey('of', resource.name), {
      properties: {
        by: oneOfSchema(references),
        sort: { anyOf: [sortable, { type: 'object', properties: { by: sortable } }] },
      },
      ...(readOnly.length > 0 && {
        allOf: [implies(isTrue('writable'), { properties: { by: { not: { enum: readOnly } } } })],
      }),
    });
  });
  return {
    propertyNames: { not: { enum: [...namesOf(fields), ...reservedFieldNames] } },
    additionalProperties: {
      properties: { of: oneOfSchema(resources.map((resource) => resource.name)) },
      ...(ofResource.length > 0 && { allOf: ofResource }),
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
  const { refers = false, joins = false, users = false, element } = type;
  const sets = Object.entries(serverTypes).flatMap(([set, serverType]) => (serverType === name ? [set] : []));
  const needsValue = type.empty === undefined && !joins;
  const emptyValues = [isTrue('nullable'), isTrue('required')];
  return implies(hasKey('type', name), {
    required: [
      ...(refers ? ['to'] : []),
      ...(joins ? ['through', 'show'] : []),
      ...(type.priced ? ['currency'] : []),
    ],
    properties: {
      ...(refers ? {} : forbid('to', 'on_delete')),
      ...(joins
        ? forbid('nullable', 'default', 'required', 'set', 'retired')
        : {
            ...forbid('through', 'show'),
            default: users || element ? false : type.json,
            set: sets.length > 0 && { enum: sets },
          }),
      ...forbid(...ruleKeys.filter((key) => !supportsRule(type, key))),
      ...(type.ranged && type.operand === 'integer' && constrainKeys(['min', 'max'], { type: 'integer' })),
      ...(type.bounded ? {} : forbid('suggested', 'transitions', 'initial', 'lookup')),
      ...(type.bounded || type.listed ? {} : forbid('enum')),
      ...(type.listed ? {} : forbid('of')),
      ...(type.priced ? { currency: { enum: [anyCurrency, ...currencyCodes] } } : forbid('currency')),
      ...(type.nested ? {} : forbid('schema')),
      ...(type.operand === undefined || refers ? forbid('default_from') : {}),
      ...(type.distinct ? {} : forbidTrue('unique')),
      ...(element
        ? {
            ...forbidTrue('nullable', 'required'),
            ...(refers && { on_delete: { enum: ['clear', 'restrict'] } }),
          }
        : {}),
    },
    ...(needsValue && {
      anyOf: [
        ...(users || refers ? [] : [isPresent('default'), isPresent('set')]),
        ...emptyValues,
        ...derivedKeys.map(isPresent),
      ],
    }),
  });
});

/** Returns the names of types that meet a condition. */
const typesWith = (isSuitable: (type: FieldType) => boolean): string[] =>
  Object.entries<FieldType>(fieldTypes).flatMap(([name, type]) => (isSuitable(type) ? [name] : []));

/** Keys that are possible together with those that derive a field's values. */
const ofDerived: readonly JsonSchema[] = [
  ...derivedKeys.map((key) =>
    implies(
      { required: [key, 'type'] },
      {
        properties: {
          ...forbid(...storedOnlyKeys),
          ...forbidTrue(...storedOnlyFlags, 'retired'),
          type: { enum: typesWith(key === 'computed' ? isComputable : canRollUp) },
          currency: { not: { const: anyCurrency } },
        },
      },
    ),
  ),
  { not: { required: [...derivedKeys] } },
  { properties: { rollup: { oneOf: rollupFunctions.map(isPresent) } } },
  implies(
    { required: ['rollup', 'type'], properties: { rollup: { required: ['count'] } } },
    { properties: { type: { enum: typesWith(({ operand }) => operand === 'integer') } } },
  ),
];

const rules: readonly JsonSchema[] = [
  ...ofType,
  ...ofDerived,
  ...renames,
  { not: { required: ['enum', 'suggested'] } },
  implies({ allOf: [isTrue('closed'), isPresent('type')] }, { required: ['enum'] }),
  implies(
    { required: ['transitions', 'type'] },
    { ...isTrue('closed'), properties: { closed: { const: true }, ...forbidTrue('read_only') } },
  ),
  implies({ required: ['initial', 'type'] }, { required: ['transitions'] }),
  implies({ required: ['enum', 'of', 'type'] }, { properties: { of: { const: 'string' } } }),
  implies(
    { required: ['default_from', 'type'] },
    {
      ...isTrue('nullable'),
      properties: { ...forbidTrue('read_only'), ...forbid('transitions'), nullable: { const: true } },
    },
  ),
  // An overlay can change the message of a rule without repeating the rule.
  implies({ required: ['message', 'type'] }, { anyOf: ruleKeys.map(isPresent) }),
  implies(isTrue('required'), {
    properties: { ...forbidTrue('read_only', 'nullable'), ...forbid('default', 'group') },
  }),
  implies(
    { allOf: [isTrue('required'), hasKey('type', 'reference')] },
    { required: ['on_delete'], properties: { on_delete: { enum: ['restrict', 'cascade'] } } },
  ),
  implies(isTrue('nullable'), { properties: forbid('default') }),
  implies(isPresent('set'), isTrue('read_only')),
  implies(isPresent('set'), { properties: forbid(...ruleKeys) }),
  implies(
    { required: ['set'], properties: { set: { enum: Object.values(identity) } } },
    { properties: forbid('group') },
  ),
  // An overlay can change a field without repeating its type.
  implies(
    { allOf: [isTrue('assignable'), isPresent('type')] },
    { required: ['set'], properties: { set: { const: 'creator' } } },
  ),
  implies(isTrue('retired'), { properties: { ...forbid('set'), ...forbidTrue('alias') } }),
  implies(isTrue('unique'), { properties: forbidTrue('read_only') }),
  implies(
    { required: ['sequence', 'type'] },
    {
      properties: {
        type: { const: 'string' },
        ...forbid(...sequenceConflicts),
        ...forbidTrue('read_only', 'nullable', 'required', 'unique', 'sensitive', 'closed'),
      },
    },
  ),
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
    scopes: {
      ...resourceSchema.properties.scopes,
      propertyNames: {
        ...resourceSchema.properties.scopes.propertyNames,
        not: { enum: [...reservedScopeNames] },
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
