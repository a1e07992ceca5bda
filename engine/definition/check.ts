import type { Field } from '../fields/index.ts';
import { declareQuery } from '../query/index.ts';
import {
  parseYaml,
  type Source,
  shape,
  sortIssues,
  suggestion,
  suggestionOrList,
  YamlError,
  type YamlIssue,
} from '../yaml/index.ts';
import { alternativeFor } from './advice.ts';
import type { RawResource, ResourceDefinition } from './definition.ts';
import { type ReportIssue, readField } from './field.ts';
import { aliasOf, readFormerName } from './former-name.ts';
import { resourceNameOf, type ValidatedSource, withOverlays } from './overlay.ts';
import { resourceSchema } from './schema.ts';
import { commonName, fileStem } from './sources.ts';
import { readUniques } from './unique.ts';

/** Where a field is written: its file and its path there. */
interface Place {
  readonly parsed: ValidatedSource;
  readonly path: readonly string[];
}

const hasShape = shape<RawResource>(resourceSchema, alternativeFor);
/**
 * Checks YAML sources and puts the shared fields in.
 * @returns the definitions, by name
 * @throws YamlError with every mistake in every file
 */
export function checkSources(sources: readonly Source[]): ResourceDefinition[] {
  const problems: YamlIssue[] = [];
  const read: ValidatedSource[] = [];
  const broken = new Set<string>();
  for (const source of sources) {
    const parsed = parseYaml(source, problems);
    if (parsed !== undefined && hasShape(parsed, problems)) read.push(parsed);
    else broken.add(fileStem(source.file));
  }
  // Without the shared fields everything else would look wrong.
  if (broken.has(commonName)) throw new YamlError(sortIssues(problems, files(sources)));

  const shipped = checkShipped(sources, read, problems);
  const shaped = withOverlays(shipped, (name) => broken.has(name), problems);
  const common = shaped.find((file) => fileStem(file.file) === commonName);
  const drafts = shaped
    .filter((file) => file !== common)
    .map((file) => draft(file, common, problems))
    .sort((a, b) => (a.name < b.name ? -1 : 1));
  for (const [index, each] of drafts.entries()) checkName(each, drafts[index + 1], problems);
  checkFormerNames(drafts, problems);
  checkSingulars(drafts, problems);
  for (const { name, broken: wrong } of drafts) if (wrong) broken.add(name);

  const definitions = drafts
    .filter((each) => !broken.has(each.name))
    .map((each) => finish(each, drafts, broken, problems));
  if (problems.length > 0) throw new YamlError(sortIssues(problems, files(sources)));
  return definitions;
}

/** The files without those that only come with the engine already, which are reported. */
function checkShipped(
  sources: readonly Source[],
  files: readonly ValidatedSource[],
  problems: YamlIssue[],
): ValidatedSource[] {
  const shipped = new Set(sources.filter(({ isShipped }) => isShipped).map(({ file }) => file));
  const names = new Set(files.filter(({ file }) => shipped.has(file)).map(resourceNameOf));
  return files.filter((each) => {
    const name = resourceNameOf(each);
    if (shipped.has(each.file) || each.data.extends !== undefined || !names.has(name)) return true;
    const instead =
      name === commonName
        ? 'give further fields in the files of the resources'
        : `begin with "extends: ${name}"`;
    const message = `"${name}" comes with the engine: ${instead}, and write only what differs`;
    problems.push(each.problem({ path: [] }, message));
    return false;
  });
}

const files = (sources: readonly Source[]): string[] => sources.map(({ file }) => file);

const resourceName = /^[a-z][a-z0-9_]{0,39}$/;

/** A resource's name is a path, a table and an object of permissions. */
function checkName({ name, parsed }: Draft, next: Draft | undefined, problems: YamlIssue[]): void {
  const report = (message: string) => problems.push(parsed.problem({ path: ['name'] }, message));
  if (next?.name === name) report(`two files define the resource "${name}"`);
  if (name.startsWith('crm_')) report('names that begin with "crm_" are the platform\'s own');
  if (name === 'events') report('"events" is what profiles call event subscriptions');
  if (name.startsWith('pg_')) report('names that begin with "pg_" are PostgreSQL\'s own');
  if (!resourceName.test(name)) {
    report(`the file's name must be a lower-case letter, then up to 39 letters, digits or _, or give "name"`);
  }
}

/** The description names what one record is by the singular: two of one name would be one. */
function checkSingulars(drafts: readonly Draft[], problems: YamlIssue[]): void {
  const owners = new Map<string, Draft>();
  for (const each of drafts) {
    const { name, parsed } = each;
    const singular = parsed.data.singular ?? name;
    const owner = owners.get(singular);
    if (owner === undefined || owner.name === name) owners.set(singular, each);
    else {
      const message = `"${singular}" is one record of ${owner.name} (${owner.parsed.file}) already: give another "singular"`;
      problems.push(parsed.problem({ path: ['singular'] }, message));
    }
  }
}

/** No two resources have had one name, and none has the alias of another one. */
function checkFormerNames(drafts: readonly Draft[], problems: YamlIssue[]): void {
  const former = new Map<string, Draft>();
  for (const each of drafts) {
    const { renamed_from: from, alias } = each.parsed.data;
    if (from === undefined) continue;
    const report = (message: string) =>
      problems.push(each.parsed.problem({ path: ['renamed_from'] }, message));
    const other = former.get(from);
    if (other !== undefined) report(`"${other.name}" is renamed from "${from}" already`);
    // Renaming a table while another definition keeps its name would leave that one an empty table.
    if (from !== each.name && drafts.some(({ name }) => name === from)) {
      report(
        alias === true
          ? `there is a resource "${from}", too`
          : `the resource "${from}" is still declared. Remove it, or "renamed_from" here.`,
      );
    }
    former.set(from, each);
  }
}

/** A resource whose fields are read, before links between resources are checked. */
interface Draft {
  readonly name: string;
  readonly parsed: ValidatedSource;
  readonly fields: readonly Field[];
  /** Fields that only their columns are left of. */
  readonly retired: readonly Field[];
  readonly places: ReadonlyMap<string, Place>;
  /** Whether one of its own fields is wrong. */
  readonly broken: boolean;
}

function draft(parsed: ValidatedSource, common: ValidatedSource | undefined, problems: YamlIssue[]): Draft {
  const raw = parsed.data;
  const found = problems.length;
  const places = new Map<string, Place>();
  const shared = common?.data.fields ?? {};
  const wanted = raw.common === 'all' ? Object.keys(shared) : (raw.common ?? []);
  for (const [index, name] of wanted.entries()) {
    if (wanted.indexOf(name) < index) {
      problems.push(parsed.problem({ path: ['common', index] }, `"${name}" is listed twice in common`));
    } else if (common !== undefined && Object.hasOwn(shared, name)) {
      places.set(name, { parsed: common, path: ['fields', name] });
    } else {
      const hint = suggestion(name, Object.keys(shared));
      problems.push(parsed.problem({ path: ['common', index] }, `no shared field "${name}"${hint}`));
    }
  }
  for (const name of Object.keys(raw.fields)) {
    const path = ['fields', name];
    if (places.has(name)) {
      problems.push(parsed.problem({ path, key: true }, `"${name}" is a shared field already`));
    }
    places.set(name, { parsed, path });
  }
  const fields = [...places].map(([name, place]) => {
    const definition = place.parsed.data.fields[name];
    return definition === undefined
      ? undefined
      : readField(name, definition, placeOf(place), reporter(place, problems));
  });
  const read = fields.filter((each) => each !== undefined);
  const isRetired = ({ name }: Field) => places.get(name)?.parsed.data.fields[name]?.retired === true;
  const sorted = { fields: read.filter((each) => !isRetired(each)), retired: read.filter(isRetired) };
  checkFormerFields(read, places, problems);
  return {
    name: resourceNameOf(parsed),
    parsed,
    places,
    ...sorted,
    broken: problems.length > found,
  };
}

/** No two fields have had one name, and none has the alias of another one. */
function checkFormerFields(
  fields: readonly Field[],
  places: ReadonlyMap<string, Place>,
  problems: YamlIssue[],
): void {
  const former = new Map<string, string>();
  for (const { name, renamedFrom: from, alias } of fields) {
    const place = places.get(name);
    if (from === undefined || place === undefined) continue;
    const report = (message: string) => reporter(place, problems)('renamed_from', message);
    const other = former.get(from);
    if (other !== undefined) report(`"${other}" is renamed from "${from}" already`);
    // Renaming the column while another field keeps its name would leave that one without its values.
    if (from !== name && places.has(from)) {
      report(
        alias === undefined
          ? `the field "${from}" is still declared. Remove it, or "renamed_from" here.`
          : `there is a field "${from}", too`,
      );
    }
    former.set(from, name);
  }
}

/** The place of a field as `file:line:column`. */
function placeOf({ parsed, path }: Place): string {
  const { file, line, column } = parsed.problem({ path, key: true }, '');
  return `${file}:${line}:${column}`;
}

/** Reports a mistake in a field: an unknown type at its value, everything else at the key. */
const reporter =
  ({ parsed, path }: Place, problems: YamlIssue[]): ReportIssue =>
  (key, message) => {
    const target = key === undefined ? { path, key: true } : { path: [...path, key], key: key !== 'type' };
    problems.push(parsed.problem(target, message));
  };

/** The checks between fields and between resources. */
function finish(
  each: Draft,
  drafts: readonly Draft[],
  broken: ReadonlySet<string>,
  problems: YamlIssue[],
): ResourceDefinition {
  const { parsed, fields, name } = each;
  const raw = parsed.data;
  const shown = [...fields, ...fields.flatMap((field) => aliasOf(field) ?? [])];
  const byName = new Map(shown.map((field) => [field.name, field]));
  const report = (path: readonly (string | number)[], message: string) =>
    problems.push(parsed.problem({ path }, message));

  for (const set of ['id', 'organization'] as const) {
    const found = fields.filter((field) => field.set === set);
    const expected = set === 'id' ? 'id' : 'organization_id';
    if (found.length !== 1 || found[0]?.name !== expected) {
      report([], `a resource needs the field "${expected}" with "set: ${set}", and no other with it`);
    }
  }
  checkColumns(each, problems);
  for (const field of [...fields, ...each.retired]) checkLink(field, each, drafts, broken, problems);

  return {
    name,
    file: parsed.file,
    singular: raw.singular ?? name,
    description: raw.description ?? '',
    fields: shown,
    retired: each.retired,
    ...readFormerName(name, raw, (key, message) => report([key], message)),
    uniques: readUniques(raw, byName, {
      atField: (field, message) => {
        const place = each.places.get(field.name);
        if (place !== undefined) reporter(place, problems)('unique', message);
      },
      atResource: (path, message) => report(['unique', ...path], message),
    }),
    ...declareQuery(raw, byName, report),
  };
}

/** What a table of PostgreSQL can have, less the column that the engine adds. */
const maxColumns = 1600 - 1;

/** No two fields may be stored in one column, and a table has room for all of them. */
function checkColumns({ parsed, fields, retired, places }: Draft, problems: YamlIssue[]): void {
  const columns = [...fields, ...retired].flatMap((field) => field.type.columns?.(field) ?? []).length;
  if (columns > maxColumns) {
    const message = `the fields need ${columns} columns, and a table of PostgreSQL has room for ${maxColumns}: divide the resource`;
    problems.push(parsed.problem({ path: ['fields'], key: true }, message));
  }
  const owners = new Map<string, string>();
  for (const field of [...fields, ...retired]) {
    for (const column of field.type.columns?.(field) ?? []) {
      const owner = owners.get(`${field.name}${column.suffix}`);
      const place = places.get(field.name);
      if (owner !== undefined && place !== undefined) {
        const message = `"${field.name}" needs a column that "${owner}" has`;
        problems.push(place.parsed.problem({ path: place.path, key: true }, message));
      }
      owners.set(`${field.name}${column.suffix}`, field.name);
    }
  }
}

/** A reference must point to a resource, a joined field must follow one to text fields. */
function checkLink(
  field: Field,
  { fields, places }: Draft,
  drafts: readonly Draft[],
  broken: ReadonlySet<string>,
  problems: YamlIssue[],
): void {
  const place = places.get(field.name);
  if (place === undefined) return;
  const report = (key: string, message: string) =>
    problems.push(place.parsed.problem({ path: [...place.path, key] }, message));
  if (field.to !== undefined && !broken.has(field.to) && !drafts.some(({ name }) => name === field.to)) {
    const known = drafts.map(({ name }) => name);
    report('to', `no resource "${field.to}"${suggestionOrList(field.to, known)}`);
  }
  if (field.through === undefined) return;
  const link = fields.find(({ name }) => name === field.through);
  if (link?.type.refers !== true) {
    const references = fields.filter(({ type }) => type.refers === true).map(({ name }) => name);
    report('through', `no reference "${field.through}" here${suggestionOrList(field.through, references)}`);
    return;
  }
  const target = drafts.find((draft) => draft.name === link.to && !draft.broken);
  for (const shown of field.show ?? []) {
    const found = target?.fields.find(({ name }) => name === shown);
    if (target !== undefined && found?.type.text === undefined) {
      const texts = target.fields.filter(({ type }) => type.text !== undefined).map(({ name }) => name);
      report('show', `no text field "${shown}" in ${target.name}${suggestionOrList(shown, texts)}`);
    }
  }
}
