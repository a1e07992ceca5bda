import { RE2JS } from 're2js';
import { type FieldType, type FieldTypeName, fieldTypes, judgeValue } from '../fields/index.ts';
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
import type { Field, RawField, RawResource, ResourceDefinition, ServerValue } from './definition.ts';
import schema from './resource.schema.json' with { type: 'json' };
import { stem } from './sources.ts';

/** A file of the right shape. */
type Shaped = Parsed & { data: RawResource };
/** Where a field is written: its file and its path there. */
interface Place {
  readonly parsed: Shaped;
  readonly path: readonly string[];
}

const hasShape = shape<RawResource>(schema);
const commonName = 'common';
const queryParameters = ['org', 'page', 'sort', 'dir'];
const serverTypes: Readonly<Record<ServerValue, FieldTypeName>> = {
  id: 'int64',
  organization: 'int64',
  creator: 'int64',
  editor: 'int64',
  created: 'timestamp',
  updated: 'timestamp',
};
/** Names that mean something on every JavaScript object. */
const forbidden = new Set(['constructor', 'prototype']);

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
    return definition === undefined ? undefined : field(name, definition, place, problems);
  });
  return {
    name: raw.name ?? stem(parsed.file),
    parsed,
    places,
    fields: fields.filter((each) => each !== undefined),
    broken: problems.length > found,
  };
}

/** A field from its YAML, with the checks that need nothing else. */
function field(name: string, raw: RawField, { parsed, path }: Place, problems: Problem[]): Field | undefined {
  const complain = (key: string | undefined, message: string) =>
    problems.push(
      parsed.problem(
        key === undefined ? { path, key: true } : { path: [...path, key], key: key !== 'type' },
        message,
      ),
    );
  if (!Object.hasOwn(fieldTypes, raw.type)) {
    complain('type', `unknown type "${raw.type}"${suggestion(raw.type, Object.keys(fieldTypes))}`);
    return undefined;
  }
  const typeName = raw.type as FieldTypeName;
  const type: FieldType = fieldTypes[typeName];
  const readOnly = raw.read_only === true || type.joins === true;
  const nullable = raw.nullable === true;

  if (forbidden.has(name)) complain(undefined, `"${name}" cannot be a field name`);
  for (const [key, ability] of [
    ['to', type.refers],
    ['through', type.joins],
    ['show', type.joins],
  ] as const) {
    if (ability === true && raw[key] === undefined) complain(undefined, `a ${raw.type} field needs "${key}"`);
    if (ability !== true && raw[key] !== undefined) complain(key, `a ${raw.type} field has no "${key}"`);
  }
  if (type.bounded !== true) {
    for (const key of ['max_length', 'pattern', 'enum', 'suggested', 'lookup'] as const) {
      if (raw[key] !== undefined) complain(key, `a ${raw.type} field has no "${key}"`);
    }
  }
  if (raw.enum !== undefined && raw.suggested !== undefined) {
    complain('suggested', 'give "enum" or "suggested", not both');
  }
  const wrongPattern = raw.pattern === undefined ? undefined : patternProblem(raw.pattern);
  if (wrongPattern !== undefined) {
    complain('pattern', `no regular expression that runs in linear time: ${wrongPattern}`);
  }
  if (type.joins === true) {
    for (const key of ['nullable', 'default', 'required', 'set'] as const) {
      if (raw[key] !== undefined) complain(key, `a ${raw.type} field has no "${key}"`);
    }
  } else {
    checkValue(raw, type, readOnly, complain);
    checkDefault(raw, type, readOnly, complain);
  }
  if (raw.set !== undefined && serverTypes[raw.set] !== typeName) {
    complain('set', `"set: ${raw.set}" needs the type ${serverTypes[raw.set]}`);
  }
  return {
    name,
    typeName,
    type,
    description: raw.description ?? '',
    readOnly,
    nullable,
    required: raw.required === true,
    default: nullable ? null : (raw.default ?? type.empty ?? null),
    ...(raw.enum === undefined ? {} : { values: { list: raw.enum, closed: true } }),
    ...(raw.suggested === undefined ? {} : { values: { list: raw.suggested, closed: false } }),
    ...(raw.max_length === undefined ? {} : { maxLength: raw.max_length }),
    ...(raw.pattern === undefined ? {} : { pattern: raw.pattern }),
    ...(raw.to === undefined ? {} : { to: raw.to }),
    ...(raw.through === undefined ? {} : { through: raw.through }),
    ...(raw.show === undefined ? {} : { show: raw.show }),
    ...(raw.set === undefined ? {} : { set: raw.set }),
    ...(raw.lookup === undefined ? {} : { lookup: raw.lookup }),
  };
}

/** What a field holds when nobody gives it a value. */
function checkValue(
  raw: RawField,
  type: FieldType,
  readOnly: boolean,
  complain: (key: string | undefined, message: string) => void,
): void {
  const nullable = raw.nullable === true;
  if (type.refers === true && !nullable) {
    complain(undefined, 'a reference needs "nullable: true": it becomes null when the record is deleted');
  }
  if (raw.set !== undefined && !readOnly) complain('set', '"set" needs "read_only: true"');
  if (raw.required === true && (readOnly || nullable || raw.default !== undefined)) {
    complain('required', 'a required field is not read-only, not nullable and has no default');
  }
  if (raw.default !== undefined || nullable || type.empty !== undefined) return;
  if (raw.required !== true && raw.set === undefined && type.refers !== true) {
    complain(undefined, `a ${raw.type} has no empty value: give "nullable: true" or "required: true"`);
  }
}

/** A default is judged like a value in a body: stored otherwise, it would be one that no caller may send. */
function checkDefault(
  raw: RawField,
  type: FieldType,
  readOnly: boolean,
  complain: (key: string | undefined, message: string) => void,
): void {
  if (raw.default === undefined) return;
  if (raw.nullable === true) {
    complain('default', 'a nullable field is null when absent; it has no default');
    return;
  }
  const wrong = judgeValue(
    {
      type,
      readOnly,
      required: true,
      ...(raw.max_length === undefined ? {} : { maxLength: raw.max_length }),
      ...(raw.pattern === undefined || !isLinear(raw.pattern) ? {} : { pattern: raw.pattern }),
    },
    raw.default,
  );
  if (wrong !== undefined) complain('default', `the default ${wrong}`);
}

/** Why a pattern cannot be used, or undefined. */
function patternProblem(pattern: string): string | undefined {
  try {
    RE2JS.compile(pattern);
    return undefined;
  } catch (cause) {
    return (cause as Error).message;
  }
}
const isLinear = (pattern: string): boolean => patternProblem(pattern) === undefined;

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
  const complain = (path: readonly (string | number)[], message: string, key = false) =>
    problems.push(parsed.problem({ path, key }, message));
  const find = (wanted: string, path: readonly (string | number)[]): Field | undefined => {
    const found = byName.get(wanted);
    if (found === undefined)
      complain(path, `no field "${wanted}" here${suggestion(wanted, [...byName.keys()])}`);
    return found;
  };

  for (const set of ['id', 'organization'] as const) {
    const found = fields.filter((one) => one.set === set);
    const expected = set === 'id' ? 'id' : 'organization_id';
    if (found.length !== 1 || found[0]?.name !== expected) {
      complain([], `a resource needs the field "${expected}" with "set: ${set}", and no other with it`);
    }
  }
  checkColumns(each, problems);
  for (const one of fields) checkLink(one, each, drafts, broken, problems);

  const sortBy = raw.sort === undefined ? byName.get('id') : find(raw.sort.by, ['sort', 'by']);
  if (sortBy !== undefined && sortBy.type.order === undefined) {
    complain(['sort', 'by'], `a ${sortBy.typeName} field cannot be sorted by`);
  }
  const filters = (raw.filters ?? []).map((filter, index) => {
    const found = find(filter, ['filters', index]);
    if (found !== undefined && found.type.equals === undefined) {
      complain(['filters', index], `a ${found.typeName} field cannot be filtered by`);
    }
    if (queryParameters.includes(filter)) complain(['filters', index], `"${filter}" has another meaning`);
    return found;
  });
  return {
    name,
    singular: raw.singular ?? name,
    description: raw.description ?? '',
    fields,
    sort: {
      by: sortBy as Field,
      direction: raw.sort?.direction ?? 'asc',
      selectable: raw.sort?.selectable ?? true,
    },
    filters: filters.filter((one) => one !== undefined),
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
