import type { Field } from '../fields/index.ts';
import { declareQuery, querySchema } from '../query/index.ts';
import {
  inOrder,
  type Parsed,
  type Problem,
  parseYaml,
  type Source,
  shape,
  suggestion,
  YamlError,
} from '../yaml/index.ts';
import type { RawResource, ResourceDefinition } from './definition.ts';
import { type Complain, readField } from './field.ts';
import schema from './resource.schema.json' with { type: 'json' };
import { stem } from './sources.ts';

/** A file of the right shape. */
type Shaped = Parsed & { data: RawResource };
/** Where a field is written: its file and its path there. */
interface Place {
  readonly parsed: Shaped;
  readonly path: readonly string[];
}

// The query parts say what their keys may hold.
const hasShape = shape<RawResource>({ ...schema, properties: { ...schema.properties, ...querySchema } });
const commonName = 'common';
/**
 * Checks YAML sources and puts the shared fields in.
 * @returns the definitions, by name
 * @throws YamlError with every mistake in every file
 */
export function checkSources(sources: readonly Source[]): ResourceDefinition[] {
  const problems: Problem[] = [];
  const shaped: Shaped[] = [];
  const broken = new Set<string>();
  for (const source of sources) {
    const parsed = parseYaml(source, problems);
    if (parsed !== undefined && hasShape(parsed, problems)) shaped.push(parsed);
    else broken.add(stem(source.file));
  }
  // Without the shared fields everything else would look wrong.
  if (broken.has(commonName)) throw new YamlError(inOrder(problems, files(sources)));

  const common = shaped.find((file) => stem(file.file) === commonName);
  const drafts = shaped
    .filter((file) => file !== common)
    .map((file) => draft(file, common, problems))
    .sort((a, b) => (a.name < b.name ? -1 : 1));
  for (const [index, each] of drafts.entries()) checkName(each, drafts[index + 1], problems);
  for (const { name, broken: wrong } of drafts) if (wrong) broken.add(name);

  const definitions = drafts
    .filter((each) => !broken.has(each.name))
    .map((each) => finish(each, drafts, broken, problems));
  if (problems.length > 0) throw new YamlError(inOrder(problems, files(sources)));
  return definitions;
}

const files = (sources: readonly Source[]): string[] => sources.map(({ file }) => file);

const resourceName = /^[a-z][a-z0-9_]{0,39}$/;

/** A resource's name is a path, a table and an object of permissions. */
function checkName({ name, parsed }: Draft, next: Draft | undefined, problems: Problem[]): void {
  const complain = (message: string) => problems.push(parsed.problem({ path: ['name'] }, message));
  if (next?.name === name) complain(`two files define the resource "${name}"`);
  if (name.startsWith('crm_')) complain('names that begin with "crm_" are the platform\'s own');
  if (name.startsWith('pg_')) complain('names that begin with "pg_" are PostgreSQL\'s own');
  if (!resourceName.test(name)) {
    complain(
      `the file's name must be a lower-case letter, then up to 39 letters, digits or _, or give "name"`,
    );
  }
}

/** A resource whose fields are known, before links between resources are looked at. */
interface Draft {
  readonly name: string;
  readonly parsed: Shaped;
  readonly fields: readonly Field[];
  readonly places: ReadonlyMap<string, Place>;
  /** Whether a field of it is wrong by itself. */
  readonly broken: boolean;
}

function draft(parsed: Shaped, common: Shaped | undefined, problems: Problem[]): Draft {
  const raw = parsed.data;
  const found = problems.length;
  const places = new Map<string, Place>();
  const shared = common?.data.fields ?? {};
  const wanted = raw.common === 'all' ? Object.keys(shared) : (raw.common ?? []);
  for (const [index, name] of wanted.entries()) {
    if (common !== undefined && Object.hasOwn(shared, name)) {
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
      : readField(name, definition, placeOf(place), complaint(place, problems));
  });
  return {
    name: raw.name ?? stem(parsed.file),
    parsed,
    places,
    fields: fields.filter((each) => each !== undefined),
    broken: problems.length > found,
  };
}

/** The place of a field as people and editors read it. */
function placeOf({ parsed, path }: Place): string {
  const { file, line, column } = parsed.problem({ path, key: true }, '');
  return `${file}:${line}:${column}`;
}

/** Tells a mistake in a field where it stands: an unknown type at its value, all else at the key. */
const complaint =
  ({ parsed, path }: Place, problems: Problem[]): Complain =>
  (key, message) => {
    const target = key === undefined ? { path, key: true } : { path: [...path, key], key: key !== 'type' };
    problems.push(parsed.problem(target, message));
  };

/** The checks between fields and between resources. */
function finish(
  each: Draft,
  drafts: readonly Draft[],
  broken: ReadonlySet<string>,
  problems: Problem[],
): ResourceDefinition {
  const { parsed, fields, name } = each;
  const raw = parsed.data;
  const byName = new Map(fields.map((one) => [one.name, one]));
  const complain = (path: readonly (string | number)[], message: string) =>
    problems.push(parsed.problem({ path }, message));

  for (const set of ['id', 'organization'] as const) {
    const found = fields.filter((one) => one.set === set);
    const expected = set === 'id' ? 'id' : 'organization_id';
    if (found.length !== 1 || found[0]?.name !== expected) {
      complain([], `a resource needs the field "${expected}" with "set: ${set}", and no other with it`);
    }
  }
  checkColumns(each, problems);
  for (const one of fields) checkLink(one, each, drafts, broken, problems);

  return {
    name,
    file: parsed.file,
    singular: raw.singular ?? name,
    description: raw.description ?? '',
    fields,
    ...declareQuery(raw, byName, complain),
  };
}

/** No two fields may be stored in one column. */
function checkColumns({ fields, places }: Draft, problems: Problem[]): void {
  const owners = new Map<string, string>();
  for (const one of fields) {
    for (const column of one.type.columns?.(one) ?? []) {
      const owner = owners.get(`${one.name}${column.suffix}`);
      const place = places.get(one.name);
      if (owner !== undefined && place !== undefined) {
        const message = `"${one.name}" needs a column that "${owner}" has`;
        problems.push(place.parsed.problem({ path: place.path, key: true }, message));
      }
      owners.set(`${one.name}${column.suffix}`, one.name);
    }
  }
}

/** A reference must point to a resource, a joined field must follow one to text fields. */
function checkLink(
  one: Field,
  { fields, places }: Draft,
  drafts: readonly Draft[],
  broken: ReadonlySet<string>,
  problems: Problem[],
): void {
  const place = places.get(one.name);
  if (place === undefined) return;
  const complain = (key: string, message: string) =>
    problems.push(place.parsed.problem({ path: [...place.path, key] }, message));
  if (one.to !== undefined && !broken.has(one.to) && !drafts.some((other) => other.name === one.to)) {
    const known = drafts.map((other) => other.name);
    complain('to', `no resource "${one.to}"${suggestion(one.to, known)}`);
  }
  if (one.through === undefined) return;
  const link = fields.find((other) => other.name === one.through);
  if (link?.type.refers !== true) {
    const references = fields.filter((other) => other.type.refers === true).map((other) => other.name);
    complain('through', `no reference "${one.through}" here${suggestion(one.through, references)}`);
    return;
  }
  const target = drafts.find((other) => other.name === link.to && !other.broken);
  for (const shown of one.show ?? []) {
    const found = target?.fields.find((other) => other.name === shown);
    if (target !== undefined && found?.type.text === undefined) {
      const texts = target.fields.filter((other) => other.type.text !== undefined).map((other) => other.name);
      complain('show', `no text field "${shown}" in ${target.name}${suggestion(shown, texts)}`);
    }
  }
}
