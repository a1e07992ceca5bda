import { type OverlaidList, overlaidLists } from '../query/index.ts';
import {
  hasPath,
  type Parsed,
  suggestion,
  suggestionOrList,
  type Target,
  type YamlIssue,
} from '../yaml/index.ts';
import type { RawField, RawResource } from './definition.ts';
import { isStored } from './derived.ts';
import { commonName, fileStem } from './sources.ts';

/** A file that matches the schema. */
export type ValidatedSource = Parsed & { data: RawResource };

/** Keys of the extended file that an overlay cannot change. */
const fixedKeys = ['name', 'common', 'renamed_from', 'alias', 'deprecated', 'sunset'];

/** Returns the name of the resource that a file defines. */
export const resourceNameOf = ({ data, file }: ValidatedSource): string => data.name ?? fileStem(file);

/**
 * Merges overlays into the files that they extend. Fields and keys of `screen` are added or changed. Filters, scopes, checks,
 * children and unique fields are added, except that a filter replaces the existing filter for the same field, and a scope or
 * list of children the existing one with the same name. Filters and searched fields can also be removed. All other keys are
 * replaced.
 * @param isBroken returns whether the issues of an invalid file have already been reported
 */
export function withOverlays(
  files: readonly ValidatedSource[],
  isBroken: (name: string) => boolean,
  issues: YamlIssue[],
): readonly ValidatedSource[] {
  const overlays = new Map<string, ValidatedSource>();
  const complete = files.filter(({ data }) => data.extends === undefined);
  const shared = complete.find(({ file }) => fileStem(file) === commonName)?.data.fields ?? {};
  const bases = complete.map((base) => withOwner(base, shared, issues));
  for (const overlay of files) {
    const { extends: name } = overlay.data;
    if (name === undefined) continue;
    const report = (target: Target, message: string) => issues.push(overlay.issueAt(target, message));
    const other = overlays.get(name);
    const base = bases.find((candidate) => resourceNameOf(candidate) === name);
    if (other !== undefined) report({ path: ['extends'] }, `"${name}" is already extended by ${other.file}`);
    else if (base !== undefined) {
      overlays.set(name, overlay);
      checkOverlay({ overlay: overlay.data, base: base.data, shared, name }, report);
    } else if (!isBroken(name)) {
      const hint = suggestion(name, bases.map(resourceNameOf));
      report({ path: ['extends'] }, `unknown resource "${name}"${hint}`);
    }
  }
  return bases.map((base) => {
    const overlay = overlays.get(resourceNameOf(base));
    return overlay === undefined ? base : mergeOverlay(base, overlay, shared, issues);
  });
}

/** Completes the fields of a file that only make a shared owner assignable, and reports other fields without a type. */
function withOwner(
  base: ValidatedSource,
  shared: RawResource['fields'],
  issues: YamlIssue[],
): ValidatedSource {
  const { fields } = base.data;
  const changes = Object.entries(fields).filter(([, { type }]) => type === undefined);
  if (changes.length === 0) return base;
  const completed = { ...fields };
  for (const [name, field] of changes) {
    const owner = sharedField({ base: base.data, shared }, name);
    if (changesOwner(field, owner)) completed[name] = { ...owner, ...field };
    else {
      issues.push(base.issueAt({ path: ['fields', name], key: true }, `${name} needs "type"`));
      delete completed[name];
    }
  }
  return { ...base, data: { ...base.data, fields: completed } };
}

/** An overlay, the resource that it extends, and the shared fields. */
interface Extension {
  readonly overlay: RawResource;
  readonly base: RawResource;
  readonly shared: RawResource['fields'];
  readonly name: string;
}

/** Reports changes that an overlay is not allowed to make. */
function checkOverlay(
  { overlay, base, shared, name }: Extension,
  report: (target: Target, message: string) => void,
): void {
  for (const key of fixedKeys.filter((fixedKey) => Object.hasOwn(overlay, fixedKey))) {
    report({ path: [key], key: true }, `"${key}" cannot be changed by a file that extends ${name}`);
  }
  for (const [field, changes] of Object.entries(overlay.fields ?? {})) {
    const { type, renamed_from: from } = changes;
    const path = ['fields', field];
    if (changesOwner(changes, sharedField({ base, shared }, field))) continue;
    if (!Object.hasOwn(base.fields, field) && type === undefined) {
      report({ path, key: true }, unknownField(field, base.fields, shared, name));
    }
    if (from !== undefined && Object.hasOwn(base.fields, from)) {
      const message = `"${from}" is a field of ${name}, which this file extends, and cannot be renamed here`;
      report({ path: [...path, 'renamed_from'] }, message);
    }
  }
}

/** Returns the shared field with this name, if the base file includes it. */
const sharedField = (
  { base, shared }: Pick<Extension, 'base' | 'shared'>,
  name: string,
): RawField | undefined => (sharedNames(base.common, shared).includes(name) ? shared[name] : undefined);

/** Returns the names of the shared fields that a file includes. */
export function sharedNames(common: RawResource['common'], shared: RawResource['fields']): readonly string[] {
  if (common === 'all') return Object.keys(shared);
  if (common !== 'none') return common ?? [];
  return Object.entries(shared).flatMap(([name, { set }]) =>
    set === 'id' || set === 'organization' ? [name] : [],
  );
}

/** Returns whether a field only makes a shared owner assignable, which is the only change to a shared field. */
const changesOwner = (changes: object, field: RawField | undefined): boolean =>
  field?.set === 'creator' && Object.keys(changes).every((key) => key === 'assignable');

/** Returns the message for a field that has no type and is not declared by the extended resource. */
function unknownField(
  field: string,
  fields: RawResource['fields'],
  shared: RawResource['fields'],
  name: string,
): string {
  if (Object.hasOwn(shared, field)) {
    return `"${field}" is a shared field and cannot be changed by a file that extends ${name}`;
  }
  const [current] = Object.entries(fields).find(([, { renamed_from: from }]) => from === field) ?? [];
  if (current !== undefined) return `"${field}" of ${name} is now called "${current}". Rename it here.`;
  const hint = suggestion(field, Object.keys(fields));
  return `unknown field "${field}" of ${name}${hint === '' ? '. A new field needs "type".' : hint}`;
}

/** A list entry and its location. */
interface Entry {
  readonly value: unknown;
  readonly parsed: ValidatedSource;
  readonly path: readonly (string | number)[];
}

/** Merges a file and its overlay. Issues in a key or field are reported in the overlay if it is there. */
function mergeOverlay(
  base: ValidatedSource,
  overlay: ValidatedSource,
  shared: RawResource['fields'],
  issues: YamlIssue[],
): ValidatedSource {
  const { extends: _extends, fields = {}, ...rest } = overlay.data;
  const changes = Object.entries(fields)
    .map(([name, field]) => {
      const owner = sharedField({ base: base.data, shared }, name);
      const original = changesOwner(field, owner) ? owner : base.data.fields[name];
      return [name, { ...original, ...field }] as const;
    })
    // Fields without a type have already been reported.
    .filter(([, { type }]) => type !== undefined);
  // Joined and derived fields have no stored values to keep.
  const removed = changes.flatMap(([name, field]) =>
    !isStored(field) && field.retired === true && Object.hasOwn(base.data.fields, name) ? [name] : [],
  );
  const merged = { ...base.data.fields, ...Object.fromEntries(changes) };
  const lists: Readonly<Record<string, Entry[]>> = {
    ...mergeLists(base, overlay, issues),
    unique: mergeEntries(uniquesOf(base), uniquesOf(overlay), JSON.stringify),
    checks: mergeEntries(checksOf(base), checksOf(overlay), JSON.stringify),
  };
  const nonEmptyLists = Object.entries(lists).filter(
    ([key, entries]) => entries.length > 0 || Object.hasOwn(rest, key),
  );
  const data = {
    ...base.data,
    ...rest,
    ...Object.fromEntries(nonEmptyLists.map(([key, entries]) => [key, entries.map(({ value }) => value)])),
    name: resourceNameOf(base),
    ...(overlay.data.scopes && { scopes: { ...base.data.scopes, ...overlay.data.scopes } }),
    ...(overlay.data.children && { children: { ...base.data.children, ...overlay.data.children } }),
    ...(overlay.data.screen && { screen: { ...base.data.screen, ...overlay.data.screen } }),
    fields: Object.fromEntries(Object.entries(merged).filter(([name]) => !removed.includes(name))),
  } as RawResource;
  return {
    file: overlay.file,
    data,
    issueAt: (target, message) => {
      const [section, index, ...rest] = target.path;
      const entry = lists[String(section)]?.[Number(index)];
      if (entry !== undefined)
        return entry.parsed.issueAt({ ...target, path: [...entry.path, ...rest] }, message);
      return (hasPath(overlay.data, target.path.slice(0, 2)) ? overlay : base).issueAt(target, message);
    },
  };
}

/** Merges two lists. Entries in the second list replace entries with the same key in the first list. */
function mergeEntries(
  first: readonly Entry[],
  second: readonly Entry[],
  keyOf: (value: unknown) => string,
): Entry[] {
  const replacedKeys = new Set(second.map(({ value }) => keyOf(value)));
  return [...first.filter(({ value }) => !replacedKeys.has(keyOf(value))), ...second];
}

/** The entries that an overlay adds to a list and removes from it. */
interface ListChanges {
  readonly add?: readonly unknown[];
  readonly remove?: readonly string[];
}

/** Merges the lists that an overlay can change (see {@link overlaidLists}), and reports entries that cannot be removed. */
const mergeLists = (
  base: ValidatedSource,
  overlay: ValidatedSource,
  issues: YamlIssue[],
): Readonly<Record<string, Entry[]>> =>
  Object.fromEntries(
    [...overlaidLists].map(([key, list]) => [key, mergeList(key, list, { base, overlay }, issues)]),
  );

function mergeList(
  key: string,
  { fieldOf, isAdded }: OverlaidList,
  { base, overlay }: { readonly base: ValidatedSource; readonly overlay: ValidatedSource },
  issues: YamlIssue[],
): Entry[] {
  const existing = entriesOf(base, [key], base.data[key]);
  const value = overlay.data[key];
  if (value === undefined) return existing;
  if (Array.isArray(value)) {
    const entries = entriesOf(overlay, [key], value);
    return isAdded ? mergeEntries(existing, entries, fieldOf) : entries;
  }
  const { add, remove = [] } = value as ListChanges;
  const names = existing.map((entry) => fieldOf(entry.value));
  for (const [index, name] of remove.entries()) {
    if (names.includes(name)) continue;
    const hint = suggestionOrList(name, names);
    const message = `"${name}" is not in "${key}" of ${resourceNameOf(base)}${hint}`;
    issues.push(overlay.issueAt({ path: [key, 'remove', index] }, message));
  }
  return mergeEntries(
    existing.filter((entry) => !remove.includes(fieldOf(entry.value))),
    entriesOf(overlay, [key, 'add'], add),
    fieldOf,
  );
}

/** Returns a list's entries with their locations. */
const entriesOf = (parsed: ValidatedSource, path: readonly string[], list: unknown): Entry[] =>
  ((list ?? []) as readonly unknown[]).map((value, index) => ({ value, parsed, path: [...path, index] }));

const checksOf = (parsed: ValidatedSource): Entry[] => entriesOf(parsed, ['checks'], parsed.data.checks);

/** Returns the groups of fields that are unique together. A plain list of names is a single group. */
function uniquesOf(parsed: ValidatedSource): Entry[] {
  const { unique = [] } = parsed.data;
  const isSingleGroup = unique.some((item) => typeof item === 'string');
  if (isSingleGroup) return [{ value: unique, parsed, path: ['unique'] }];
  return unique.map((value, index) => ({ value, parsed, path: ['unique', index] }));
}
