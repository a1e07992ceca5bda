import type { Aggregates, ResourceDefinition } from '../definition/index.ts';
import { pluralize } from '../errors.ts';
import {
  type Field,
  type JsonSchema,
  type OnDelete,
  type Rollup,
  rulesOf,
  type Transitions,
  transitionScope,
} from '../fields/index.ts';
import type { Children } from '../query/index.ts';
import { namesOf } from '../records/index.ts';

/** A field as exposed by the API. */
export interface ApiField {
  readonly type: string;
  readonly nullable?: true;
  readonly required?: true;
  readonly read_only?: true;
  readonly min?: number;
  readonly max?: number;
  readonly min_length?: number;
  readonly max_length?: number;
  readonly pattern?: string;
  readonly format?: string;
  /** The type of a list's values. */
  readonly of?: string;
  /** Maximum number of values in a list. */
  readonly max_items?: number;
  /** The currency of an amount of money, or `any`. */
  readonly currency?: string;
  /** The JSON Schema of documents. */
  readonly schema?: JsonSchema;
  readonly enum?: readonly string[];
  /** The only accepted values; absent if all strings are accepted. */
  readonly closed?: readonly string[];
  /** Expression for the value of new records that omit the field. */
  readonly default_from?: string;
  /** Format of the sequence that numbers new records. */
  readonly sequence?: string;
  /** Values to which each value can change; absent if all changes are allowed. */
  readonly transitions?: Readonly<Record<string, readonly string[]>>;
  /** Values that a new record can have. */
  readonly initial?: readonly string[];
  /** The resource to which the field refers, or the resources of which it refers to one. */
  readonly to?: string | readonly string[];
  /** Group whose grants callers need. */
  readonly group?: string;
  /** The expression of a computed field. */
  readonly computed?: string;
  /** The values that a rollup combines. */
  readonly rollup?: string;
  /** Absent for references that become null when their record is deleted. */
  readonly on_delete?: OnDelete;
  /** Current name of the field, if this entry describes its former name. */
  readonly alias_of?: string;
}

/** A named list of records that refer to a record, as exposed by the API. */
export interface ApiChildren {
  readonly of: string;
  readonly by: string;
  /** Absent for the default order. */
  readonly order?: string;
  readonly writable?: true;
}

/** The names of the fields that aggregates can use, as exposed by the API. */
interface ApiAggregates {
  readonly group_by: readonly string[];
  readonly measures: readonly string[];
}

/** A resource as exposed by the API. */
export interface ApiResource {
  readonly fields: Readonly<Record<string, ApiField>>;
  /** Filter operators, keyed by field name. */
  readonly filters: Readonly<Record<string, readonly string[]>>;
  readonly unique: readonly (readonly string[])[];
  readonly search: readonly string[];
  readonly sort: { readonly by: string; readonly direction: string; readonly selectable: boolean };
  /** Conditions of the scopes that grants can refer to, keyed by name. Absent if the resource has no scopes. */
  readonly scopes?: Readonly<Record<string, string>>;
  /** Conditions that every record must meet. Absent if the resource declares no checks. */
  readonly checks?: readonly string[];
  /** The condition under which records cannot be changed. Absent if records are never locked. */
  readonly locked?: string;
  /** Named lists of records that refer to a record. Absent if the resource has none. */
  readonly children?: Readonly<Record<string, ApiChildren>>;
  /** Absent if the resource has no aggregates, and in migrations that do not record them. */
  readonly aggregates?: ApiAggregates;
  /** Former name of the resource, whose path still works. */
  readonly alias?: string;
}

/** The API of every resource, keyed by resource name. */
export type Api = Readonly<Record<string, ApiResource>>;

/** Returns the API described by resource definitions. */
export const apiOf = (definitions: readonly ResourceDefinition[]): Api =>
  Object.fromEntries(
    definitions
      .filter(({ isRetired }) => !isRetired)
      .map((definition) => [definition.name, resourceOf(definition)]),
  );

function resourceOf(definition: ResourceDefinition): ApiResource {
  const { fields, filters, uniques, scopes, checks, locked, search, sort, children, alias, renamedFrom } =
    definition;
  const { aggregates } = definition;
  const defaultOf = (field: Field): Pick<ApiField, 'default_from'> => {
    const expression = definition.defaults.get((field.aliasOf ?? field).name);
    return expression === undefined ? {} : { default_from: expression.source };
  };
  return {
    fields: Object.fromEntries(
      fields.map((field) => [
        field.name,
        {
          type: field.typeName,
          ...(field.nullable && { nullable: true }),
          ...(field.required && { required: true }),
          ...(field.readOnly && { read_only: true }),
          ...Object.fromEntries(rulesOf(field).map(({ key, value }) => [key, value])),
          ...(field.of !== undefined && { of: field.of }),
          ...(field.currency !== undefined && { currency: field.currency }),
          ...(field.schema !== undefined && { schema: field.schema }),
          ...(field.values?.isSuggestion === false && { enum: field.values.list }),
          ...(field.transitions && {
            transitions: transitionsOf(field.transitions),
            initial: field.transitions.initial,
          }),
          ...defaultOf(field),
          ...(field.sequence !== undefined && { sequence: field.sequence.format }),
          ...(field.to !== undefined && { to: field.to }),
          ...(field.alternatives && { to: field.alternatives.flatMap(({ to }) => to ?? []) }),
          ...(field.group !== undefined && { group: field.group }),
          ...(field.computed && { computed: field.computed.source }),
          ...(field.rollup && { rollup: rollupText(field.rollup) }),
          ...(field.onDelete !== undefined && field.onDelete !== 'clear' && { on_delete: field.onDelete }),
          ...(field.aliasOf && { alias_of: field.aliasOf.name }),
        },
      ]),
    ),
    filters: Object.fromEntries(filters.map(({ name, operators }) => [name, operators])),
    unique: uniques.map(namesOf),
    search: search.map(({ name }) => name),
    sort: { by: sort.field.name, direction: sort.direction, selectable: sort.choices.size > 0 },
    ...(scopes.length > 0 && {
      scopes: Object.fromEntries(scopes.map(({ name, condition }) => [name, condition.source])),
    }),
    ...(checks.length > 0 && { checks: checks.map(({ condition }) => condition.source) }),
    ...(locked && { locked: locked.condition.source }),
    ...(children.length > 0 && { children: childrenOf(children) }),
    ...(aggregates && { aggregates: aggregatesOf(aggregates) }),
    ...(alias && renamedFrom !== undefined && { alias: renamedFrom }),
  };
}

/** Returns the current names of the fields that aggregates can use. */
function aggregatesOf({ groupBy, measures }: Aggregates): ApiAggregates {
  const namesIn = (entries: Aggregates['measures']) =>
    entries.flatMap(({ name, isFormer }) => (isFormer ? [] : [name]));
  return { group_by: namesIn(groupBy), measures: namesIn(measures) };
}

/** Returns the values to which each value can change. The scope of a limited change follows the value in brackets. */
const transitionsOf = (transitions: Transitions): Readonly<Record<string, readonly string[]>> =>
  Object.fromEntries(
    [...transitions.next].map(([from, to]) => [
      from,
      to.map((value) => {
        const scope = transitionScope(transitions, from, value);
        return scope === undefined ? value : `${value} (in the scope ${scope})`;
      }),
    ]),
  );

/** Describes the values that a rollup combines. */
const rollupText = ({ function: name, field, of, by, condition }: Rollup): string =>
  `${name}${field === undefined ? '' : ` of ${field.name}`} in ${of} by ${by}${condition === undefined ? '' : ` where ${condition.source}`}`;

/** Effect of a change on callers. */
export type ApiChangeKind =
  | 'added'
  | 'removed'
  | 'renamed'
  | 'retyped'
  | 'stricter'
  | 'looser'
  | 'changed'
  | 'deprecated';

/** A change that callers can see. */
export interface ApiChange {
  readonly kind: ApiChangeKind;
  /** Name of the changed item, for example `leads`, `leads.fax` or `leads filter rating[ne]`. */
  readonly name: string;
  readonly text: string;
  /** Whether the change can break existing clients. */
  readonly breaks: boolean;
  /** The name that callers can no longer use. `resource` is the resource's previous name. */
  readonly loses?: { readonly resource: string; readonly field?: string };
}

const isEmpty = (value: object): boolean => Object.keys(value).length === 0;

/**
 * Returns the differences between two versions of the API.
 * @param definitions definitions whose former names distinguish a rename from a removal and an addition
 */
export function apiChanges(
  before: Api,
  after: Api,
  definitions: readonly ResourceDefinition[],
): readonly ApiChange[] {
  // Old migrations do not record the API, so a comparison is not possible.
  if (isEmpty(before)) return [];
  const byName = new Map(definitions.map((definition) => [definition.name, definition]));
  const renamedTo = new Map(
    definitions.flatMap(({ name, renamedFrom: previousName }) =>
      previousName !== undefined && previousName in before && !(name in before)
        ? [[previousName, name] as const]
        : [],
    ),
  );
  const changes: ApiChange[] = [];
  for (const [name, previous] of Object.entries(before)) {
    const newName = renamedTo.get(name) ?? name;
    const resource = after[newName];
    if (resource === undefined) {
      const text = `the path /${name} was removed`;
      changes.push({ kind: 'removed', name, text, breaks: true, loses: { resource: name } });
      continue;
    }
    if (newName !== name) {
      const isAliased = resource.alias === name;
      changes.push({
        kind: isAliased ? 'deprecated' : 'renamed',
        name,
        text: `/${name} is now /${newName}${isAliased ? '; the old path works until its sunset date' : ''}`,
        breaks: !isAliased,
        loses: { resource: name },
      });
    }
    const { alias } = previous;
    if (alias !== undefined && alias !== resource.alias && alias !== newName)
      changes.push({
        kind: 'removed',
        name: `${newName} path /${alias}`,
        text: 'was removed',
        breaks: true,
        loses: { resource: alias },
      });
    changes.push(
      ...fieldChanges({ name, resourceName: newName }, previous, resource, byName.get(newName)),
      ...elementChanges(newName, previous, resource),
      ...scopeChanges(newName, previous, resource),
      ...checkChanges(newName, previous, resource),
      ...lockChanges(newName, previous, resource),
      ...childChanges(newName, before, previous, resource),
    );
  }
  const existingNames = new Set([...Object.keys(before), ...renamedTo.values()]);
  for (const name of Object.keys(after)) {
    if (!existingNames.has(name))
      changes.push({ kind: 'added', name, text: `the path /${name} is new`, breaks: false });
  }
  return changes;
}

function fieldChanges(
  { name: formerly, resourceName }: { readonly name: string; readonly resourceName: string },
  before: ApiResource,
  after: ApiResource,
  definition: ResourceDefinition | undefined,
): ApiChange[] {
  const changes: ApiChange[] = [];
  const newNames = new Map(
    (definition?.fields ?? []).flatMap(({ name, renamedFrom: from, aliasOf }) =>
      aliasOf === undefined && from !== undefined && from in before.fields && !(name in before.fields)
        ? [[from, name] as const]
        : [],
    ),
  );
  for (const [field, previous] of Object.entries(before.fields)) {
    const newName = newNames.get(field) ?? field;
    const name = `${resourceName}.${field}`;
    const loses = { resource: formerly, field };
    if (newName !== field) {
      const isAliased = after.fields[field]?.alias_of === newName;
      changes.push({
        kind: isAliased ? 'deprecated' : 'renamed',
        name,
        text: `is now ${newName}${isAliased ? '; the old name works until its sunset date' : ''}`,
        breaks: !isAliased,
        loses,
      });
    }
    const currentField = after.fields[newName];
    if (currentField === undefined) {
      const text =
        previous.alias_of === undefined
          ? 'was removed'
          : `was removed; it was the former name of ${previous.alias_of}`;
      changes.push({ kind: 'removed', name, text, breaks: true, loses });
    } else changes.push(...differences(`${resourceName}.${newName}`, previous, currentField));
  }
  const existingNames = new Set([...Object.keys(before.fields), ...newNames.values()]);
  for (const [field, { required, sequence, alias_of: alias }] of Object.entries(after.fields)) {
    if (existingNames.has(field) || alias !== undefined) continue;
    const text =
      sequence === undefined
        ? 'is new'
        : `is new and numbers new records as ${sequence}; existing records keep null`;
    changes.push(
      required
        ? {
            kind: 'stricter',
            name: `${resourceName}.${field}`,
            text: 'is new and required in every create',
            breaks: true,
          }
        : { kind: 'added', name: `${resourceName}.${field}`, text, breaks: false },
    );
  }
  return changes;
}

/** What deleting a referenced record does, keyed by the reference's `on_delete`. */
const deleteRules = {
  clear: 'now becomes null when its record is deleted',
  restrict: 'now prevents its record from being deleted',
  cascade: 'now has its own record deleted together with the record that it refers to',
} as const satisfies Readonly<Record<OnDelete, string>>;

/** Returns the changes to the resources to which a field refers. */
function targetDifferences(name: string, before: ApiField['to'], after: ApiField['to']): ApiChange[] {
  if (typeof before !== 'object' || typeof after !== 'object') {
    if (before === after) return [];
    const [previous, current] = [before, after].map((to) => [to ?? []].flat().join(' or '));
    const text = `refers to ${current} instead of ${previous}`;
    return [{ kind: 'retyped', name, text, breaks: true }];
  }
  const change = (text: string): ApiChange => ({ kind: 'stricter', name, text, breaks: true });
  return [
    ...before.filter((to) => !after.includes(to)).map((to) => change(`can no longer refer to ${to}`)),
    ...after.filter((to) => !before.includes(to)).map((to) => change(`can now also refer to ${to}`)),
  ];
}

const characters = (count: unknown): string => pluralize(Number(count), 'character');

/** Rules with a numeric limit, except `max_length`. */
const limits = [
  { key: 'min', isLowerLimit: true, quantity: String },
  { key: 'max', isLowerLimit: false, quantity: String },
  { key: 'min_length', isLowerLimit: true, quantity: (limit: unknown) => `${characters(limit)} long` },
  { key: 'max_items', isLowerLimit: false, quantity: (limit: unknown) => pluralize(Number(limit), 'value') },
] as const;

/** Returns the changes to a field's properties. */
function differences(name: string, before: ApiField, after: ApiField): ApiChange[] {
  const changes: ApiChange[] = [];
  const add = (kind: ApiChangeKind, text: string) =>
    changes.push({ kind, name, text, breaks: kind === 'retyped' || kind === 'stricter' });
  if (before.type !== after.type) add('retyped', `is ${after.type} instead of ${before.type}`);
  if (before.type === after.type) changes.push(...targetDifferences(name, before.to, after.to));
  const [oldRule, newRule] = [before.on_delete ?? 'clear', after.on_delete ?? 'clear'];
  if (oldRule !== newRule && before.type === after.type)
    add(newRule === 'clear' ? 'looser' : 'stricter', deleteRules[newRule]);
  const flags = [
    ['required', 'is now required in every create', 'is now optional in creates'],
    ['read_only', 'is now read-only and ignored in request bodies', 'can now be set in request bodies'],
  ] as const;
  for (const [key, stricter, looser] of flags) {
    if (after[key] && !before[key]) add('stricter', stricter);
    if (!after[key] && before[key]) add('looser', looser);
  }
  if (after.nullable && !before.nullable) add('stricter', 'can now be null in responses');
  if (!after.nullable && before.nullable) add('looser', 'is no longer null in responses');
  const [short, long] = [
    after.max_length ?? Number.POSITIVE_INFINITY,
    before.max_length ?? Number.POSITIVE_INFINITY,
  ];
  if (short < long)
    add('stricter', `is limited to ${characters(short)}${before.max_length ? ` instead of ${long}` : ''}`);
  if (short > long)
    add(
      'looser',
      `can have ${after.max_length ? `up to ${short}` : 'any number of'} characters instead of ${long}`,
    );
  for (const { key, isLowerLimit, quantity } of limits) {
    const [limit, previous] = [after[key], before[key]];
    const words = isLowerLimit ? 'at least' : 'at most';
    const verb = key === 'max_items' ? 'contain' : 'be';
    if (limit === previous) continue;
    if (limit === undefined) add('looser', `no longer has to ${verb} ${words} ${quantity(previous)}`);
    else {
      const isStricter = previous === undefined || (isLowerLimit ? limit > previous : limit < previous);
      const instead = previous === undefined ? '' : ` instead of ${previous}`;
      add(isStricter ? 'stricter' : 'looser', `must ${verb} ${words} ${quantity(limit)}${instead}`);
    }
  }
  if (before.pattern !== after.pattern) {
    add(
      after.pattern === undefined ? 'looser' : 'stricter',
      after.pattern === undefined ? 'no longer has a pattern' : `must match ${after.pattern}`,
    );
  }
  if (before.format !== after.format) {
    add(
      after.format === undefined ? 'looser' : 'stricter',
      after.format === undefined ? 'no longer has a format' : `must have the format ${after.format}`,
    );
  }
  if (before.type === after.type) {
    if (before.currency !== after.currency)
      add('retyped', `has the currency ${after.currency} instead of ${before.currency}`);
    if (before.of !== after.of)
      add('retyped', `is a list of type ${after.of ?? 'string'} instead of ${before.of ?? 'string'}`);
    const [oldSchema, newSchema] = [before.schema, after.schema].map((schema) => JSON.stringify(schema));
    if (newSchema === undefined && oldSchema !== undefined) add('looser', 'no longer has a schema');
    else if (oldSchema !== newSchema) add('stricter', 'has a new schema, which stored values might not meet');
  }
  const [previous, calculation] = [before, after].map(({ computed, rollup }) => computed ?? rollup);
  if (previous !== calculation) {
    const text = calculation === undefined ? 'is now stored' : `is now calculated: ${calculation}`;
    changes.push({ kind: 'retyped', name, text, breaks: false });
  }
  if (before.group !== after.group) {
    add(
      after.group === undefined ? 'looser' : 'stricter',
      after.group === undefined
        ? `no longer belongs to the group ${before.group}, so every caller with access to the records can see it`
        : `now belongs to the group ${after.group}, so callers need a grant for the group`,
    );
  }
  changes.push(...newRecordChanges(name, before, after));
  const removed = removedValues(before, after);
  const added = (after.enum ?? []).filter((value) => !(before.enum ?? []).includes(value));
  if (removed.length > 0) add('stricter', `no longer lists ${removed.join(', ')}`);
  if (after.closed && !before.closed)
    add('stricter', `rejects all values except ${(after.enum ?? []).join(', ')}`);
  if (!after.closed && before.closed) add('looser', 'accepts values that are not listed');
  changes.push(...transitionChanges(name, before, after));
  if (before.enum !== undefined && added.length > 0) add('looser', `also lists ${added.join(', ')}`);
  return changes;
}

/** Returns the changes to the values that the server gives a field in new records. */
function newRecordChanges(name: string, before: ApiField, after: ApiField): ApiChange[] {
  const changes: ApiChange[] = [];
  const add = (text: string, breaks = false) => changes.push({ kind: 'changed', name, text, breaks });
  const [oldDefault, newDefault] = [before.default_from, after.default_from];
  if (newDefault === undefined && oldDefault !== undefined)
    add('is no longer calculated in new records that omit it', true);
  else if (newDefault !== oldDefault)
    add(
      `is calculated as ${newDefault}${oldDefault === undefined ? '' : ` instead of ${oldDefault}`} in new records that omit it`,
    );
  const [oldSequence, newSequence] = [before.sequence, after.sequence];
  if (newSequence === undefined && oldSequence !== undefined) add('no longer numbers new records', true);
  else if (newSequence !== oldSequence)
    add(
      `numbers new records as ${newSequence}${oldSequence === undefined ? '; existing records keep their values' : ` instead of ${oldSequence}`}`,
    );
  return changes;
}

/** Returns the changes to a field's transitions. */
function transitionChanges(name: string, before: ApiField, after: ApiField): ApiChange[] {
  const changeOf = (kind: 'stricter' | 'looser', text: string): ApiChange => ({
    kind,
    name,
    text,
    breaks: kind === 'stricter',
  });
  if (after.transitions === undefined)
    return before.transitions === undefined ? [] : [changeOf('looser', 'can change to any value')];
  if (before.transitions === undefined)
    return [changeOf('stricter', 'can only change along its transitions')];
  const listOf = ({ transitions = {}, initial = [] }: ApiField) => [
    ...initial.map((value) => `be ${value} in a new record`),
    ...Object.entries(transitions).flatMap(([from, to]) =>
      to.map((value) => `change from ${from} to ${value}`),
    ),
  ];
  const [previous, current] = [listOf(before), listOf(after)];
  return [
    ...previous
      .filter((text) => !current.includes(text))
      .map((text) => changeOf('stricter', `can no longer ${text}`)),
    ...current.filter((text) => !previous.includes(text)).map((text) => changeOf('looser', `can ${text}`)),
  ];
}

/** Returns the values that were removed from a field's enum. */
export const removedValues = (
  before: Pick<ApiField, 'enum'>,
  after: Pick<ApiField, 'enum'>,
): readonly string[] =>
  after.enum === undefined ? [] : (before.enum ?? []).filter((value) => !after.enum?.includes(value));

function elementChanges(name: string, before: ApiResource, after: ApiResource): ApiChange[] {
  const changes: ApiChange[] = [];
  const compare = (label: string, previous: readonly string[], current: readonly string[]) => {
    for (const entry of previous.filter((value) => !current.includes(value))) {
      changes.push({ kind: 'removed', name: `${name} ${label} ${entry}`, text: 'was removed', breaks: true });
    }
    for (const entry of current.filter((value) => !previous.includes(value))) {
      changes.push({ kind: 'added', name: `${name} ${label} ${entry}`, text: 'is new', breaks: false });
    }
  };
  compare('filter', parametersOf(before, after), parametersOf(after, before));
  // Older migrations do not record aggregates, so additions cannot be distinguished from aggregates that existed before.
  if (before.aggregates !== undefined) {
    for (const [key, label] of [
      ['group_by', 'group'],
      ['measures', 'measure'],
    ] as const)
      compare(`aggregate ${label}`, aggregated(before, after, key), aggregated(after, before, key));
  }
  compare('search', before.search.length > 0 ? ['q'] : [], after.search.length > 0 ? ['q'] : []);
  const uniques = ({ unique }: ApiResource) => unique.map((names) => names.join('+'));
  for (const entry of uniques(after).filter((value) => !uniques(before).includes(value))) {
    changes.push({
      kind: 'stricter',
      name: `${name}.${entry}`,
      text: 'must now be unique',
      breaks: true,
    });
  }
  for (const entry of uniques(before).filter((value) => !uniques(after).includes(value))) {
    changes.push({
      kind: 'removed',
      name: `${name} match ${entry}`,
      text: 'is no longer unique',
      breaks: true,
    });
  }
  const [{ sort: oldSort }, { sort: newSort }] = [before, after];
  // If the field by which records are sorted has another name, only this name is reported.
  const isOtherField = newSort.by in before.fields || hasField(after, oldSort.by);
  if (oldSort.by !== newSort.by && isOtherField) {
    changes.push({
      kind: 'retyped',
      name: `${name} order`,
      text: `is now by ${newSort.by} instead of ${oldSort.by}`,
      breaks: true,
    });
  } else if (oldSort.direction !== newSort.direction) {
    changes.push({
      kind: 'retyped',
      name: `${name} order`,
      text: `is now ${newSort.direction} instead of ${oldSort.direction}`,
      breaks: true,
    });
  }
  if (oldSort.selectable && !newSort.selectable) {
    changes.push({ kind: 'removed', name: `${name} parameter sort`, text: 'was removed', breaks: true });
  }
  return changes;
}

/** Returns the changes to scopes, which change what callers with these grants can access. */
function scopeChanges(
  name: string,
  { scopes: before = {} }: ApiResource,
  { scopes: after = {} }: ApiResource,
): ApiChange[] {
  const changes: ApiChange[] = [];
  for (const [scope, condition] of Object.entries(before)) {
    const current = after[scope];
    const item = `${name} scope ${scope}`;
    if (current === undefined) {
      const text = 'was removed, so grants with the scope allow nothing';
      changes.push({ kind: 'removed', name: item, text, breaks: true });
    } else if (current !== condition) {
      changes.push({
        kind: 'retyped',
        name: item,
        text: `is now ${current} instead of ${condition}`,
        breaks: true,
      });
    }
  }
  for (const scope of Object.keys(after).filter((key) => !Object.hasOwn(before, key))) {
    changes.push({ kind: 'added', name: `${name} scope ${scope}`, text: 'is new', breaks: false });
  }
  return changes;
}

/** Returns the lists of children as exposed by the API, keyed by name. */
const childrenOf = (children: readonly Children[]): Readonly<Record<string, ApiChildren>> =>
  Object.fromEntries(
    children.map(({ name, of, by, order, isWritable }) => [
      name,
      {
        of,
        by,
        ...(order && { order: `${order.field.name} ${order.direction}` }),
        ...(isWritable && { writable: true as const }),
      },
    ]),
  );

/**
 * Returns the changes to a resource's lists of children.
 * @param before the API before the change, in which a list without a name has a default name
 */
function childChanges(
  name: string,
  before: Api,
  { children: previous = {} }: ApiResource,
  { children: current = {} }: ApiResource,
): ApiChange[] {
  const changes: ApiChange[] = [];
  for (const [list, old] of Object.entries(previous)) {
    const item = `${name} list ${list}`;
    const now = current[list];
    if (now === undefined) {
      changes.push({ kind: 'removed', name: item, text: 'was removed', breaks: true });
    } else if (now.of !== old.of || now.by !== old.by) {
      const text = `contains ${now.of} by ${now.by} instead of ${old.of} by ${old.by}`;
      changes.push({ kind: 'retyped', name: item, text, breaks: true });
    } else if (now.order !== old.order) {
      const text = `is now ordered by ${now.order ?? 'the default order'}`;
      changes.push({ kind: 'retyped', name: item, text, breaks: true });
    }
    if (now !== undefined && now.writable !== old.writable) {
      changes.push(
        now.writable
          ? { kind: 'looser', name: item, text: 'can now be set in request bodies', breaks: false }
          : { kind: 'stricter', name: item, text: 'is now ignored in request bodies', breaks: true },
      );
    }
  }
  for (const [list, { of, by }] of Object.entries(current)) {
    if (list in previous) continue;
    const hasDefault = list !== of && before[of]?.fields[by]?.to === name;
    const text = hasDefault ? `is new and replaces the default name for ${of} in expand` : 'is new';
    changes.push({ kind: 'added', name: `${name} list ${list}`, text, breaks: hasDefault });
  }
  return changes;
}

/** Returns the changes to the conditions that every record must meet. */
const checkChanges = (
  name: string,
  { checks: before = [] }: ApiResource,
  { checks: after = [] }: ApiResource,
): ApiChange[] => [
  ...after
    .filter((condition) => !before.includes(condition))
    .map(
      (condition): ApiChange => ({
        kind: 'stricter',
        name,
        text: `must now meet ${condition}`,
        breaks: true,
      }),
    ),
  ...before
    .filter((condition) => !after.includes(condition))
    .map(
      (condition): ApiChange => ({
        kind: 'looser',
        name,
        text: `no longer has to meet ${condition}`,
        breaks: false,
      }),
    ),
];

/** Returns the change to the condition under which records cannot be changed. */
function lockChanges(
  name: string,
  { locked: before }: ApiResource,
  { locked: after }: ApiResource,
): ApiChange[] {
  if (before === after) return [];
  const previous = before === undefined ? '' : ` instead of ${before}`;
  return [
    after === undefined
      ? { kind: 'looser', name, text: `can now be changed if ${before}`, breaks: false }
      : { kind: 'stricter', name, text: `can no longer be changed if ${after}${previous}`, breaks: true },
  ];
}

/**
 * Returns the filter parameters of fields that exist in both versions. For all other fields, adding or
 * removing the field is reported instead.
 */
const parametersOf = ({ filters }: ApiResource, counterpart: ApiResource): readonly string[] =>
  Object.entries(filters)
    .filter(([name]) => hasField(counterpart, name))
    .flatMap(([field, operators]) => operators.map((operator) => `${field}[${operator}]`));

/**
 * Returns the groups or measures of aggregates by fields that exist in both versions, and the count of records, which every
 * resource with aggregates has.
 */
const aggregated = (
  { aggregates }: ApiResource,
  counterpart: ApiResource,
  key: keyof ApiAggregates,
): readonly string[] => [
  ...(aggregates !== undefined && key === 'measures' ? ['count()'] : []),
  ...(aggregates?.[key] ?? []).filter((name) => hasField(counterpart, name)),
];

/** Returns whether a resource has the field to which a name such as `price` or `price.currency` belongs. */
function hasField({ fields }: ApiResource, name: string): boolean {
  const [fieldName = name] = name.split('.');
  const field = fields[fieldName];
  return field !== undefined && field.alias_of === undefined;
}
