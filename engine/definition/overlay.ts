import { hasPath, type Parsed, suggestion, type Target, type YamlIssue } from '../yaml/index.ts';
import type { RawResource } from './definition.ts';
import { fileStem } from './sources.ts';

/** A file of the right shape. */
export type ValidatedSource = Parsed & { data: RawResource };

/** Keys of the file that is extended, which an overlay leaves as they are. */
const fixed = ['name', 'common', 'renamed_from', 'alias', 'deprecated', 'sunset'];

/** The name of the resource that a file defines. */
export const resourceNameOf = ({ data, file }: ValidatedSource): string => data.name ?? fileStem(file);

/**
 * Puts overlays into the files that they extend: fields are added or get other keys, filters and unique fields are added
 * (an entry of the same field replaces the one before), all else is replaced.
 * @param isBroken whether a file of this name could not be read, which is reported already
 */
export function withOverlays(
  files: readonly ValidatedSource[],
  isBroken: (name: string) => boolean,
  problems: YamlIssue[],
): readonly ValidatedSource[] {
  const overlays = new Map<string, ValidatedSource>();
  const bases = files.filter(({ data }) => data.extends === undefined);
  for (const overlay of files) {
    const { extends: name } = overlay.data;
    if (name === undefined) continue;
    const report = (target: Target, message: string) => problems.push(overlay.problem(target, message));
    const other = overlays.get(name);
    const base = bases.find((each) => resourceNameOf(each) === name);
    if (other !== undefined) report({ path: ['extends'] }, `"${name}" is extended by ${other.file} already`);
    else if (base !== undefined) {
      overlays.set(name, overlay);
      checkOverlay(overlay.data, base.data, name, report);
    } else if (!isBroken(name)) {
      const hint = suggestion(name, bases.map(resourceNameOf));
      report({ path: ['extends'] }, `there is no resource "${name}" to extend${hint}`);
    }
  }
  return bases.map((base) => {
    const overlay = overlays.get(resourceNameOf(base));
    return overlay === undefined ? base : merged(base, overlay);
  });
}

function checkOverlay(
  overlay: RawResource,
  { fields: known }: RawResource,
  name: string,
  report: (target: Target, message: string) => void,
): void {
  for (const key of fixed.filter((each) => Object.hasOwn(overlay, each))) {
    report({ path: [key], key: true }, `"${key}" cannot be changed by a file that extends ${name}`);
  }
  for (const [field, { type, renamed_from: from }] of Object.entries(overlay.fields ?? {})) {
    const path = ['fields', field];
    if (!Object.hasOwn(known, field) && type === undefined) {
      const hint = suggestion(field, Object.keys(known));
      report(
        { path, key: true },
        `${name} have no field "${field}" to change, and a new one needs "type"${hint}`,
      );
    }
    if (from !== undefined && Object.hasOwn(known, from)) {
      const message = `"${from}" is a field of the ${name} that are extended: it keeps its name`;
      report({ path: [...path, 'renamed_from'] }, message);
    }
  }
}

/** An entry of a list, and where it is written. */
interface Entry {
  readonly value: unknown;
  readonly parsed: ValidatedSource;
  readonly path: readonly (string | number)[];
}

/** Both files as one, whose mistakes are shown in the overlay if it says anything of the same key or field. */
function merged(base: ValidatedSource, overlay: ValidatedSource): ValidatedSource {
  const { extends: _extends, fields = {}, ...rest } = overlay.data;
  const changed = Object.entries(fields)
    .map(([name, field]) => [name, { ...base.data.fields[name], ...field }] as const)
    // The others are reported.
    .filter(([, { type }]) => type !== undefined);
  const lists = {
    filters: joined(filtersOf(base), filtersOf(overlay), fieldOf),
    unique: joined(uniquesOf(base), uniquesOf(overlay), JSON.stringify),
  };
  const given = Object.entries(lists).filter(([, entries]) => entries.length > 0);
  const data = {
    ...base.data,
    ...rest,
    ...Object.fromEntries(given.map(([key, entries]) => [key, entries.map(({ value }) => value)])),
    name: resourceNameOf(base),
    fields: { ...base.data.fields, ...Object.fromEntries(changed) },
  } as RawResource;
  return {
    file: overlay.file,
    data,
    problem: (target, message) => {
      const [section, index, ...below] = target.path;
      const entry = lists[section as keyof typeof lists]?.[Number(index)];
      if (entry !== undefined)
        return entry.parsed.problem({ ...target, path: [...entry.path, ...below] }, message);
      return (hasPath(overlay.data, target.path.slice(0, 2)) ? overlay : base).problem(target, message);
    },
  };
}

/** The entries of two lists; one of the second replaces those of the first with the same key. */
function joined(
  first: readonly Entry[],
  second: readonly Entry[],
  keyOf: (value: unknown) => string,
): Entry[] {
  const replaced = new Set(second.map(({ value }) => keyOf(value)));
  return [...first.filter(({ value }) => !replaced.has(keyOf(value))), ...second];
}

const fieldOf = (filter: unknown): string =>
  typeof filter === 'string' ? filter : (filter as { field: string }).field;

const filtersOf = (parsed: ValidatedSource): Entry[] =>
  ((parsed.data.filters ?? []) as readonly unknown[]).map((value, index) => ({
    value,
    parsed,
    path: ['filters', index],
  }));

/** The groups of fields that are unique together; a list of names is one group. */
function uniquesOf(parsed: ValidatedSource): Entry[] {
  const { unique = [] } = parsed.data;
  const isOne = unique.some((each) => typeof each === 'string');
  if (isOne) return [{ value: unique, parsed, path: ['unique'] }];
  return unique.map((value, index) => ({ value, parsed, path: ['unique', index] }));
}
