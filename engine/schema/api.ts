import type { ResourceDefinition } from '../definition/index.ts';
import { namesOf } from '../records/index.ts';

/** A field as exposed by the API. */
export interface ApiField {
  readonly type: string;
  readonly nullable?: true;
  readonly required?: true;
  readonly read_only?: true;
  readonly max_length?: number;
  readonly pattern?: string;
  readonly enum?: readonly string[];
  readonly to?: string;
  /** Current name of the field, if this entry describes its former name. */
  readonly alias_of?: string;
}

/** A resource as exposed by the API. */
export interface ApiResource {
  readonly fields: Readonly<Record<string, ApiField>>;
  /** Filter operators, keyed by field name. */
  readonly filters: Readonly<Record<string, readonly string[]>>;
  readonly unique: readonly (readonly string[])[];
  readonly search: readonly string[];
  readonly sort: { readonly by: string; readonly direction: string; readonly selectable: boolean };
  /** Former name of the resource, whose path still works. */
  readonly alias?: string;
}

/** The API of every resource, keyed by resource name. */
export type Api = Readonly<Record<string, ApiResource>>;

/** Returns the API described by resource definitions. */
export const apiOf = (definitions: readonly ResourceDefinition[]): Api =>
  Object.fromEntries(definitions.map((definition) => [definition.name, resourceOf(definition)]));

function resourceOf(definition: ResourceDefinition): ApiResource {
  const { fields, filters, uniques, search, sort, alias, renamedFrom } = definition;
  return {
    fields: Object.fromEntries(
      fields.map((field) => [
        field.name,
        {
          type: field.typeName,
          ...(field.nullable && { nullable: true }),
          ...(field.required && { required: true }),
          ...(field.readOnly && { read_only: true }),
          ...(field.maxLength !== undefined && { max_length: field.maxLength }),
          ...(field.pattern !== undefined && { pattern: field.pattern }),
          ...(field.values?.closed && { enum: field.values.list }),
          ...(field.to !== undefined && { to: field.to }),
          ...(field.aliasOf && { alias_of: field.aliasOf.name }),
        },
      ]),
    ),
    filters: Object.fromEntries(filters.map(({ field, operators }) => [field.name, operators])),
    unique: uniques.map(namesOf),
    search: search.map(({ name }) => name),
    sort: { by: sort.field.name, direction: sort.direction, selectable: sort.choices.size > 0 },
    ...(alias && renamedFrom !== undefined && { alias: renamedFrom }),
  };
}

/** Effect of a change on callers. */
export type ApiChangeKind =
  | 'added'
  | 'removed'
  | 'renamed'
  | 'retyped'
  | 'stricter'
  | 'looser'
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
    changes.push(
      ...fieldChanges({ name, resourceName: newName }, previous, resource, byName.get(newName)),
      ...elementChanges(newName, previous, resource),
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
  for (const [field, { required, alias_of: alias }] of Object.entries(after.fields)) {
    if (existingNames.has(field) || alias !== undefined) continue;
    changes.push(
      required
        ? {
            kind: 'stricter',
            name: `${resourceName}.${field}`,
            text: 'is new and required in every create',
            breaks: true,
          }
        : { kind: 'added', name: `${resourceName}.${field}`, text: 'is new', breaks: false },
    );
  }
  return changes;
}

/** Returns the changes to a field's properties. */
function differences(name: string, before: ApiField, after: ApiField): ApiChange[] {
  const changes: ApiChange[] = [];
  const add = (kind: ApiChangeKind, text: string) =>
    changes.push({ kind, name, text, breaks: kind === 'retyped' || kind === 'stricter' });
  if (before.type !== after.type) add('retyped', `is ${after.type} instead of ${before.type}`);
  if (before.to !== after.to && before.type === after.type)
    add('retyped', `refers to ${after.to} instead of ${before.to}`);
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
    add('stricter', `is limited to ${short} characters${before.max_length ? ` instead of ${long}` : ''}`);
  if (short > long)
    add(
      'looser',
      `can have ${after.max_length ? `up to ${short}` : 'any number of'} characters instead of ${long}`,
    );
  if (before.pattern !== after.pattern) {
    add(
      after.pattern === undefined ? 'looser' : 'stricter',
      after.pattern === undefined ? 'no longer has a pattern' : `must match ${after.pattern}`,
    );
  }
  const removed = removedValues(before, after);
  const added = (after.enum ?? []).filter((value) => !(before.enum ?? []).includes(value));
  if (removed.length > 0) add('stricter', `no longer lists ${removed.join(', ')}`);
  if (before.enum !== undefined && added.length > 0) add('looser', `also lists ${added.join(', ')}`);
  return changes;
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
  if (oldSort.by !== newSort.by && newSort.by in before.fields) {
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

/**
 * Returns the filter parameters of fields that exist in both versions. For all other fields, adding or
 * removing the field is reported instead.
 */
const parametersOf = ({ filters }: ApiResource, counterpart: ApiResource): readonly string[] =>
  Object.entries(filters)
    .filter(([field]) => field in counterpart.fields && counterpart.fields[field]?.alias_of === undefined)
    .flatMap(([field, operators]) => operators.map((operator) => `${field}[${operator}]`));
