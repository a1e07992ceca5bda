import type { ResourceDefinition } from '../definition/index.ts';
import { namesOf } from '../records/index.ts';

/** What callers know of a field. */
export interface ApiField {
  readonly type: string;
  readonly nullable?: true;
  readonly required?: true;
  readonly read_only?: true;
  readonly max_length?: number;
  readonly pattern?: string;
  readonly enum?: readonly string[];
  readonly to?: string;
  /** The field whose former name this is. */
  readonly alias_of?: string;
}

/** What callers know of a resource. */
export interface ApiResource {
  readonly fields: Readonly<Record<string, ApiField>>;
  /** Operators by field. */
  readonly filters: Readonly<Record<string, readonly string[]>>;
  readonly unique: readonly (readonly string[])[];
  readonly search: readonly string[];
  readonly sort: { readonly by: string; readonly direction: string; readonly selectable: boolean };
  /** The former name that its path still has. */
  readonly alias?: string;
}

/** What callers know of all resources. */
export type Api = Readonly<Record<string, ApiResource>>;

/** What callers know of resources, from their definitions. */
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

/** How a change concerns callers. */
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
  /** `leads`, `leads.fax`, or a part such as `leads filter rating[ne]`. */
  readonly name: string;
  readonly text: string;
  /** Whether requests or clients that are right today may fail. */
  readonly breaks: boolean;
  /** The names that callers lose, as they send them; the resource by the name that it had. */
  readonly loses?: { readonly resource: string; readonly field?: string };
}

const isEmpty = (value: object): boolean => Object.keys(value).length === 0;

/**
 * What changes for callers.
 * @param after may name former names, which tell a new name from another thing
 */
export function apiChanges(
  before: Api,
  after: Api,
  definitions: readonly ResourceDefinition[],
): readonly ApiChange[] {
  // Migrations that are older than this do not say what callers knew.
  if (isEmpty(before)) return [];
  const byName = new Map(definitions.map((each) => [each.name, each]));
  const renamedTo = new Map(
    definitions.flatMap(({ name, renamedFrom: from }) =>
      from !== undefined && from in before && !(name in before) ? [[from, name] as const] : [],
    ),
  );
  const changes: ApiChange[] = [];
  for (const [name, old] of Object.entries(before)) {
    const now = renamedTo.get(name) ?? name;
    const resource = after[now];
    if (resource === undefined) {
      const text = `the path /${name} is gone`;
      changes.push({ kind: 'removed', name, text, breaks: true, loses: { resource: name } });
      continue;
    }
    if (now !== name) {
      const isKept = resource.alias === name;
      changes.push({
        kind: isKept ? 'deprecated' : 'renamed',
        name,
        text: `/${name} is /${now} now${isKept ? '; the old path stays for a while' : ''}`,
        breaks: !isKept,
        loses: { resource: name },
      });
    }
    changes.push(
      ...fieldChanges({ name, now }, old, resource, byName.get(now)),
      ...partChanges(now, old, resource),
    );
  }
  const known = new Set([...Object.keys(before), ...renamedTo.values()]);
  for (const name of Object.keys(after)) {
    if (!known.has(name))
      changes.push({ kind: 'added', name, text: `the path /${name} is new`, breaks: false });
  }
  return changes;
}

function fieldChanges(
  { name: formerly, now }: { readonly name: string; readonly now: string },
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
  for (const [field, old] of Object.entries(before.fields)) {
    const current = newNames.get(field) ?? field;
    const name = `${now}.${field}`;
    const loses = { resource: formerly, field };
    if (current !== field) {
      const isKept = after.fields[field]?.alias_of === current;
      changes.push({
        kind: isKept ? 'deprecated' : 'renamed',
        name,
        text: `is ${current} now${isKept ? '; the old name stays for a while' : ''}`,
        breaks: !isKept,
        loses,
      });
    }
    const found = after.fields[current];
    if (found === undefined) {
      const was =
        old.alias_of === undefined ? 'is gone' : `is gone; it has been the former name of ${old.alias_of}`;
      changes.push({ kind: 'removed', name, text: was, breaks: true, loses });
    } else changes.push(...differences(`${now}.${current}`, old, found));
  }
  const known = new Set([...Object.keys(before.fields), ...newNames.values()]);
  for (const [field, { required, alias_of: of }] of Object.entries(after.fields)) {
    if (known.has(field) || of !== undefined) continue;
    changes.push(
      required
        ? {
            kind: 'stricter',
            name: `${now}.${field}`,
            text: 'is new, and every create needs it',
            breaks: true,
          }
        : { kind: 'added', name: `${now}.${field}`, text: 'is new', breaks: false },
    );
  }
  return changes;
}

/** What is different about a field of the same name. */
function differences(name: string, before: ApiField, after: ApiField): ApiChange[] {
  const changes: ApiChange[] = [];
  const add = (kind: ApiChangeKind, text: string) =>
    changes.push({ kind, name, text, breaks: kind === 'retyped' || kind === 'stricter' });
  if (before.type !== after.type) add('retyped', `is ${after.type} instead of ${before.type}`);
  if (before.to !== after.to && before.type === after.type)
    add('retyped', `refers to ${after.to} instead of ${before.to}`);
  const flags = [
    ['required', 'every create needs it', 'creates may leave it out'],
    ['read_only', 'what bodies say of it is ignored', 'bodies may set it'],
  ] as const;
  for (const [key, stricter, looser] of flags) {
    if (after[key] && !before[key]) add('stricter', stricter);
    if (!after[key] && before[key]) add('looser', looser);
  }
  if (after.nullable && !before.nullable) add('stricter', 'responses may have null');
  if (!after.nullable && before.nullable) add('looser', 'responses are no longer null');
  const [short, long] = [
    after.max_length ?? Number.POSITIVE_INFINITY,
    before.max_length ?? Number.POSITIVE_INFINITY,
  ];
  if (short < long)
    add('stricter', `at most ${short} characters${before.max_length ? ` instead of ${long}` : ''}`);
  if (short > long)
    add('looser', `${after.max_length ? `up to ${short}` : 'any number of'} characters instead of ${long}`);
  if (before.pattern !== after.pattern) {
    add(
      after.pattern === undefined ? 'looser' : 'stricter',
      after.pattern === undefined ? 'no longer has a pattern' : `must match ${after.pattern}`,
    );
  }
  const gone = removedValues(before, after);
  const added = (after.enum ?? []).filter((value) => !(before.enum ?? []).includes(value));
  if (gone.length > 0) add('stricter', `no longer lists ${gone.join(', ')}`);
  if (before.enum !== undefined && added.length > 0) add('looser', `lists ${added.join(', ')} too`);
  return changes;
}

/** The values that a field no longer lists. */
export const removedValues = (
  before: Pick<ApiField, 'enum'>,
  after: Pick<ApiField, 'enum'>,
): readonly string[] =>
  after.enum === undefined ? [] : (before.enum ?? []).filter((value) => !after.enum?.includes(value));

function partChanges(name: string, before: ApiResource, after: ApiResource): ApiChange[] {
  const changes: ApiChange[] = [];
  const compare = (what: string, old: readonly string[], now: readonly string[]) => {
    for (const each of old.filter((value) => !now.includes(value))) {
      changes.push({ kind: 'removed', name: `${name} ${what} ${each}`, text: 'is gone', breaks: true });
    }
    for (const each of now.filter((value) => !old.includes(value))) {
      changes.push({ kind: 'added', name: `${name} ${what} ${each}`, text: 'is new', breaks: false });
    }
  };
  compare('filter', parametersOf(before, after), parametersOf(after, before));
  compare('search', before.search.length > 0 ? ['q'] : [], after.search.length > 0 ? ['q'] : []);
  const uniques = ({ unique }: ApiResource) => unique.map((names) => names.join('+'));
  for (const each of uniques(after).filter((value) => !uniques(before).includes(value))) {
    changes.push({
      kind: 'stricter',
      name: `${name}.${each}`,
      text: 'no two records may have the same',
      breaks: true,
    });
  }
  for (const each of uniques(before).filter((value) => !uniques(after).includes(value))) {
    changes.push({
      kind: 'removed',
      name: `${name} match ${each}`,
      text: 'is no longer unique',
      breaks: true,
    });
  }
  const [{ sort: old }, { sort: now }] = [before, after];
  if (old.by !== now.by && now.by in before.fields) {
    changes.push({
      kind: 'retyped',
      name: `${name} order`,
      text: `is by ${now.by} instead of ${old.by}`,
      breaks: true,
    });
  } else if (old.direction !== now.direction) {
    changes.push({
      kind: 'retyped',
      name: `${name} order`,
      text: `is ${now.direction} instead of ${old.direction}`,
      breaks: true,
    });
  }
  if (old.selectable && !now.selectable) {
    changes.push({ kind: 'removed', name: `${name} parameter sort`, text: 'is gone', breaks: true });
  }
  return changes;
}

/** The parameters of filters by fields that both have; those of others go or come with their fields. */
const parametersOf = ({ filters }: ApiResource, other: ApiResource): readonly string[] =>
  Object.entries(filters)
    .filter(([field]) => field in other.fields && other.fields[field]?.alias_of === undefined)
    .flatMap(([field, operators]) => operators.map((operator) => `${field}[${operator}]`));
