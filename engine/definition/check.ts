import type { Field } from '../fields/index.ts';
import { declareQuery } from '../query/index.ts';
import {
  didYouMean,
  parseYaml,
  type Source,
  shape,
  sortIssues,
  suggestion,
  suggestionOrList,
  underscored,
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

/** The location of a field: its file and its path in the file. */
interface Place {
  readonly parsed: ValidatedSource;
  readonly path: readonly string[];
}

const hasShape = shape<RawResource>(resourceSchema, alternativeFor);

/**
 * Checks YAML sources and adds the shared fields.
 * @returns the definitions, sorted by name
 * @throws YamlError with all issues in all files
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
  // Without the shared fields, all other files would have further issues.
  if (broken.has(commonName)) throw new YamlError(sortIssues(problems, files(sources)));

  const shipped = checkShipped(sources, read, problems);
  const shaped = withOverlays(shipped, (name) => broken.has(name), problems);
  const common = shaped.find((file) => fileStem(file.file) === commonName);
  const drafts = shaped
    .filter((file) => file !== common)
    .map((file) => draft(file, common, problems))
    .sort((a, b) => (a.name < b.name ? -1 : 1));
  for (const [index, item] of drafts.entries()) checkName(item, drafts[index + 1], problems);
  checkFormerNames(drafts, problems);
  checkSingulars(drafts, problems);
  for (const { name, broken: isBroken } of drafts) if (isBroken) broken.add(name);

  const definitions = drafts
    .filter(({ name }) => !broken.has(name))
    .map((item) => finish(item, drafts, broken, problems));
  if (problems.length > 0) throw new YamlError(sortIssues(problems, files(sources)));
  return definitions;
}

/** Returns the files without those that redefine a resource of the engine, which are reported. */
function checkShipped(
  sources: readonly Source[],
  files: readonly ValidatedSource[],
  problems: YamlIssue[],
): ValidatedSource[] {
  const shipped = new Set(sources.filter(({ isShipped }) => isShipped).map(({ file }) => file));
  const names = new Set(files.filter(({ file }) => shipped.has(file)).map(resourceNameOf));
  return files.filter((source) => {
    const name = resourceNameOf(source);
    if (shipped.has(source.file) || source.data.extends !== undefined || !names.has(name)) return true;
    const instead =
      name === commonName
        ? 'Declare additional fields in the files of the resources.'
        : `Start the file with "extends: ${name}" and declare only your changes.`;
    const message = `"${name}" is part of the engine. ${instead}`;
    problems.push(source.problem({ path: [] }, message));
    return false;
  });
}

const files = (sources: readonly Source[]): string[] => sources.map(({ file }) => file);

const resourceName = /^[a-z][a-z0-9_]{0,39}$/;

/** Checks a resource's name, which is used as path, as table and in permissions. */
function checkName({ name, parsed }: Draft, next: Draft | undefined, problems: YamlIssue[]): void {
  const report = (message: string) => problems.push(parsed.problem({ path: ['name'] }, message));
  if (next?.name === name) report(`two files define the resource "${name}"`);
  if (name.startsWith('crm_')) report('names that start with "crm_" are reserved for the engine');
  if (name === 'events')
    report('"events" is reserved for event subscriptions in profiles. Choose another name.');
  if (name.startsWith('pg_')) report('names that start with "pg_" are reserved for PostgreSQL');
  if (!resourceName.test(name)) {
    const snake = underscored(name);
    const hint = resourceName.test(snake) ? didYouMean(snake) : '';
    report(
      `the file name must be a lowercase letter followed by up to 39 letters, digits or underscores${hint}`,
    );
  }
}

/** Checks that singulars are distinct, because they name the schemas of the API description. */
function checkSingulars(drafts: readonly Draft[], problems: YamlIssue[]): void {
  const owners = new Map<string, Draft>();
  for (const item of drafts) {
    const { name, parsed } = item;
    const singular = parsed.data.singular ?? name;
    const owner = owners.get(singular);
    if (owner === undefined || owner.name === name) owners.set(singular, item);
    else {
      const message = `"${singular}" is already the singular of ${owner.name} (${owner.parsed.file}). Set another "singular".`;
      problems.push(parsed.problem({ path: ['singular'] }, message));
    }
  }
}

/** Checks that former names and aliases of resources are distinct. */
function checkFormerNames(drafts: readonly Draft[], problems: YamlIssue[]): void {
  const former = new Map<string, string>();
  for (const { name: current, parsed } of drafts) {
    const { renamed_from: from, alias } = parsed.data;
    if (from === undefined) continue;
    const report = (message: string) => problems.push(parsed.problem({ path: ['renamed_from'] }, message));
    const other = former.get(from);
    if (other !== undefined) report(`"${other}" is already renamed from "${from}"`);
    // Renaming the table would leave the other definition with an empty one.
    if (from !== current && drafts.some(({ name }) => name === from)) {
      report(
        alias === true
          ? `"${from}" is also the name of a resource. Remove the resource or the alias.`
          : `the resource "${from}" is still declared. Remove it, or "renamed_from" here.`,
      );
    }
    former.set(from, current);
  }
}

/** A resource with its fields, before links between resources are checked. */
interface Draft {
  readonly name: string;
  readonly parsed: ValidatedSource;
  readonly fields: readonly Field[];
  /** Fields of which only the columns remain. */
  readonly retired: readonly Field[];
  readonly places: ReadonlyMap<string, Place>;
  /** The names of all shared fields. */
  readonly shared: readonly string[];
  /** Whether one of its fields is invalid. */
  readonly broken: boolean;
}

function draft(parsed: ValidatedSource, common: ValidatedSource | undefined, problems: YamlIssue[]): Draft {
  const raw = parsed.data;
  const before = problems.length;
  const places = new Map<string, Place>();
  const shared = common?.data.fields ?? {};
  const names = raw.common === 'all' ? Object.keys(shared) : (raw.common ?? []);
  for (const [index, name] of names.entries()) {
    if (names.indexOf(name) < index) {
      problems.push(parsed.problem({ path: ['common', index] }, `"${name}" is listed twice in common`));
    } else if (common !== undefined && Object.hasOwn(shared, name)) {
      places.set(name, { parsed: common, path: ['fields', name] });
    } else {
      const hint = suggestion(name, Object.keys(shared));
      problems.push(parsed.problem({ path: ['common', index] }, `unknown shared field "${name}"${hint}`));
    }
  }
  for (const name of Object.keys(raw.fields)) {
    const path = ['fields', name];
    if (places.has(name)) {
      problems.push(parsed.problem({ path, key: true }, `"${name}" is already a shared field`));
    }
    places.set(name, { parsed, path });
  }
  const fields = [...places].map(([name, place]) => {
    const definition = place.parsed.data.fields[name];
    return definition === undefined
      ? undefined
      : readField(name, definition, placeOf(place), reporter(place, problems));
  });
  const read = fields.filter((field) => field !== undefined);
  const isRetired = ({ name }: Field) => places.get(name)?.parsed.data.fields[name]?.retired === true;
  const sorted = { fields: read.filter((field) => !isRetired(field)), retired: read.filter(isRetired) };
  checkFormerFields(read, places, problems);
  return {
    name: resourceNameOf(parsed),
    parsed,
    places,
    ...sorted,
    shared: Object.keys(shared),
    broken: problems.length > before,
  };
}

/** Checks that former names and aliases of fields are distinct. */
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
    if (other !== undefined) report(`"${other}" is already renamed from "${from}"`);
    // Renaming the column would leave the other field without values.
    if (from !== name && places.has(from)) {
      report(
        alias === undefined
          ? `the field "${from}" is still declared. Remove it, or "renamed_from" here.`
          : `"${from}" is also the name of a field. Remove the field or the alias.`,
      );
    }
    former.set(from, name);
  }
}

/** Returns the location of a field as `file:line:column`. */
function placeOf({ parsed, path }: Place): string {
  const { file, line, column } = parsed.problem({ path, key: true }, '');
  return `${file}:${line}:${column}`;
}

/** Reports an issue in a field: an unknown type at its value, everything else at the key. */
const reporter =
  ({ parsed, path }: Place, problems: YamlIssue[]): ReportIssue =>
  (key, message) => {
    const target = key === undefined ? { path, key: true } : { path: [...path, key], key: key !== 'type' };
    problems.push(parsed.problem(target, message));
  };

/** Checks a resource's fields against each other and against other resources. */
function finish(
  resource: Draft,
  drafts: readonly Draft[],
  broken: ReadonlySet<string>,
  problems: YamlIssue[],
): ResourceDefinition {
  const { parsed, fields, name } = resource;
  const raw = parsed.data;
  const exposed = [...fields, ...fields.flatMap((field) => aliasOf(field) ?? [])];
  const byName = new Map(exposed.map((field) => [field.name, field]));
  const report = (path: readonly (string | number)[], message: string) =>
    problems.push(parsed.problem({ path }, message));

  for (const set of ['id', 'organization'] as const) {
    const matches = fields.filter((field) => field.set === set);
    const expected = set === 'id' ? 'id' : 'organization_id';
    if (matches.length !== 1 || matches[0]?.name !== expected) {
      const isShared = resource.shared.includes(expected) && !resource.places.has(expected);
      const hint = isShared ? '. Add "common: all".' : '';
      report([], `exactly one field must have "set: ${set}", and its name must be "${expected}"${hint}`);
    }
  }
  checkColumns(resource, problems);
  for (const field of [...fields, ...resource.retired]) checkLink(field, resource, drafts, broken, problems);

  return {
    name,
    file: parsed.file,
    singular: raw.singular ?? name,
    description: raw.description ?? '',
    fields: exposed,
    retired: resource.retired,
    ...readFormerName(name, raw, (key, message) => report([key], message)),
    uniques: readUniques(raw, byName, {
      atField: (field, message) => {
        const place = resource.places.get(field.name);
        if (place !== undefined) reporter(place, problems)('unique', message);
      },
      atResource: (path, message) => report(['unique', ...path], message),
    }),
    ...declareQuery(raw, byName, report),
  };
}

/** Maximum number of columns in a PostgreSQL table, without the engine's version column. */
const maxColumns = 1600 - 1;

/** Checks that each column belongs to one field, and that the table does not exceed {@link maxColumns}. */
function checkColumns({ parsed, fields, retired, places }: Draft, problems: YamlIssue[]): void {
  const columns = [...fields, ...retired].flatMap((field) => field.type.columns?.(field) ?? []).length;
  if (columns > maxColumns) {
    const message = `the fields need ${columns} columns, but a PostgreSQL table can have only ${maxColumns}. Split the resource.`;
    problems.push(parsed.problem({ path: ['fields'], key: true }, message));
  }
  const owners = new Map<string, string>();
  for (const field of [...fields, ...retired]) {
    for (const column of field.type.columns?.(field) ?? []) {
      const owner = owners.get(`${field.name}${column.suffix}`);
      const place = places.get(field.name);
      if (owner !== undefined && place !== undefined) {
        const message = `"${field.name}" needs the same column as "${owner}". Rename one of the fields.`;
        problems.push(place.parsed.problem({ path: place.path, key: true }, message));
      }
      owners.set(`${field.name}${column.suffix}`, field.name);
    }
  }
}

/** Checks that a reference points to a resource, and that a joined field follows a reference to text fields. */
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
    const hint = /^users?$/.test(field.to)
      ? '. Users are not a resource. For the creator of a record, use "type: int64" with "set: creator".'
      : suggestionOrList(
          field.to,
          drafts.map(({ name }) => name),
        );
    report('to', `unknown resource "${field.to}"${hint}`);
  }
  if (field.through === undefined) return;
  const link = fields.find(({ name }) => name === field.through);
  if (link?.type.refers !== true) {
    const references = fields.filter(({ type }) => type.refers === true).map(({ name }) => name);
    report(
      'through',
      `"${field.through}" is not a reference of this resource${suggestionOrList(field.through, references)}`,
    );
    return;
  }
  const target = drafts.find((draft) => draft.name === link.to && !draft.broken);
  for (const name of field.show ?? []) {
    const source = target?.fields.find((candidate) => candidate.name === name);
    if (target !== undefined && source?.type.text === undefined) {
      const texts = target.fields.filter(({ type }) => type.text !== undefined);
      const hint = suggestionOrList(
        name,
        texts.map((text) => text.name),
      );
      report('show', `"${name}" is not a text field of ${target.name}${hint}`);
    }
  }
}
