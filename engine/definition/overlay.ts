import { hasPath, type Parsed, suggestion, type Target, type YamlIssue } from '../yaml/index.ts';
import type { RawField, RawResource } from './definition.ts';
import { commonName, fileStem } from './sources.ts';

/** A file that matches the schema. */
export type ValidatedSource = Parsed & { data: RawResource };

/** Keys of the extended file that an overlay cannot change. */
const fixedKeys = ['name', 'common', 'renamed_from', 'alias', 'deprecated', 'sunset'];

/** Returns the name of the resource that a file defines. */
export const resourceNameOf = ({ data, file }: ValidatedSource): string => data.name ?? fileStem(file);

/**
 * Merges overlays into the files that they extend. Fields are added or changed. Filters and unique fields are
 * added, except that a filter replaces the existing filter for the same field. All other keys are replaced.
 * @param isBroken returns whether the issues of an invalid file have already been reported
 */
export function withOverlays(
  files: readonly ValidatedSource[],
  isBroken: (name: string) => boolean,
  issues: YamlIssue[],
): readonly ValidatedSource[] {
  const overlays = new Map<string, ValidatedSource>();
  const bases = files.filter(({ data }) => data.extends === undefined);
  const shared = bases.find(({ file }) => fileStem(file) === commonName)?.data.fields ?? {};
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
    return overlay === undefined ? base : mergeOverlay(base, overlay, shared);
  });
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
): RawField | undefined =>
  base.common === 'all' || base.common?.includes(name) === true ? shared[name] : undefined;

/** Returns whether an overlay's field only makes a shared owner assignable, which is the only change to a shared field. */
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
  const lists = {
    filters: mergeEntries(filtersOf(base), filtersOf(overlay), fieldOf),
    unique: mergeEntries(uniquesOf(base), uniquesOf(overlay), JSON.stringify),
  };
  const nonEmptyLists = Object.entries(lists).filter(([, entries]) => entries.length > 0);
  const data = {
    ...base.data,
    ...rest,
    ...Object.fromEntries(nonEmptyLists.map(([key, entries]) => [key, entries.map(({ value }) => value)])),
    name: resourceNameOf(base),
    fields: { ...base.data.fields, ...Object.fromEntries(changes) },
  } as RawResource;
  return {
    file: overlay.file,
    data,
    issueAt: (target, message) => {
      const [section, index, ...rest] = target.path;
      const entry = lists[section as keyof typeof lists]?.[Number(index)];
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

const fieldOf = (filter: unknown): string =>
  typeof filter === 'string' ? filter : (filter as { field: string }).field;

const filtersOf = (parsed: ValidatedSource): Entry[] =>
  ((parsed.data.filters ?? []) as readonly unknown[]).map((value, index) => ({
    value,
    parsed,
    path: ['filters', index],
  }));

/** Returns the groups of fields that are unique together. A plain list of names is a single group. */
function uniquesOf(parsed: ValidatedSource): Entry[] {
  const { unique = [] } = parsed.data;
  const isSingleGroup = unique.some((item) => typeof item === 'string');
  if (isSingleGroup) return [{ value: unique, parsed, path: ['unique'] }];
  return unique.map((value, index) => ({ value, parsed, path: ['unique', index] }));
}
