import { type Field, linksOf, refersToMany } from '../fields/index.ts';
import { declareQuery, withRelations } from '../query/index.ts';
import {
  didYouMean,
  parseYaml,
  type Source,
  shape,
  snakeCase,
  sortIssues,
  suggestion,
  suggestionOrList,
  YamlError,
  type YamlIssue,
} from '../yaml/index.ts';
import { alternativeFor } from './advice.ts';
import { readAggregates } from './aggregates.ts';
import { readAlternatives } from './alternatives.ts';
import { readChecks } from './checks.ts';
import { readChildren } from './children.ts';
import { withComputed } from './computed.ts';
import { readCustomFields } from './custom-fields.ts';
import { readDefaults } from './default-values.ts';
import type { RawResource, ReportIssue, ResourceDefinition } from './definition.ts';
import { readField } from './field.ts';
import { aliasOf, readFormerName } from './former-name.ts';
import { checkGroups } from './groups.ts';
import { readLabels } from './labels.ts';
import { readLock } from './locked.ts';
import { resourceNameOf, sharedNames, type ValidatedSource, withOverlays } from './overlay.ts';
import { withRollups } from './rollups.ts';
import { readScopes } from './scopes.ts';
import { readScreen } from './screen.ts';
import { commonName, fileStem, resourceSchema } from './sources.ts';
import { checkTransitionScopes } from './transitions.ts';
import { readTrash } from './trash.ts';
import { readUniques } from './unique.ts';

/** The location of a field: its file and its path within the file. */
interface FieldLocation {
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
  const issues: YamlIssue[] = [];
  const parsedSources: ValidatedSource[] = [];
  const invalidNames = new Set<string>();
  for (const source of sources) {
    const parsed = parseYaml(source, issues);
    if (parsed !== undefined && hasShape(parsed, issues)) parsedSources.push(parsed);
    else invalidNames.add(fileStem(source.file));
  }
  // Without the shared fields, every other file would be invalid too.
  if (invalidNames.has(commonName)) throw new YamlError(sortIssues(issues, files(sources)));

  const validSources = checkShipped(sources, parsedSources, issues);
  const mergedSources = withOverlays(validSources, (name) => invalidNames.has(name), issues);
  const common = mergedSources.find((file) => fileStem(file.file) === commonName);
  const singulars = new Map(mergedSources.map((file) => [resourceNameOf(file), file.data.singular]));
  const singularOf = (name: string) => singulars.get(name) ?? name;
  const drafts = mergedSources
    .filter((file) => file !== common)
    .map((file) => createDraft(file, { common, singularOf }, issues))
    .sort((a, b) => (a.name < b.name ? -1 : 1));
  for (const [index, item] of drafts.entries()) checkName(item, drafts[index + 1], issues);
  checkFormerNames(drafts, issues);
  checkSingulars(drafts, issues);
  for (const { name, isInvalid } of drafts) if (isInvalid) invalidNames.add(name);

  const definitions = drafts
    .filter(({ name }) => !invalidNames.has(name))
    .map((item) => completeDefinition(item, drafts, invalidNames, issues));
  if (issues.length > 0) throw new YamlError(sortIssues(issues, files(sources)));
  return withRelationsInUse(definitions);
}

/** Adds relations to definitions. Retired resources do not appear in the relations of other resources. */
function withRelationsInUse(definitions: readonly ResourceDefinition[]): ResourceDefinition[] {
  const inUse = new Map(
    withRelations(definitions.filter(({ isRetired }) => !isRetired)).map((item) => [item.name, item]),
  );
  return withRelations(definitions).map((definition) => inUse.get(definition.name) ?? definition);
}

/** Returns the files that do not redefine a resource of the engine, and reports the files that do. */
function checkShipped(
  sources: readonly Source[],
  files: readonly ValidatedSource[],
  issues: YamlIssue[],
): ValidatedSource[] {
  const shippedFiles = new Set(sources.filter(({ isShipped }) => isShipped).map(({ file }) => file));
  const shippedNames = new Set(files.filter(({ file }) => shippedFiles.has(file)).map(resourceNameOf));
  return files.filter((source) => {
    const name = resourceNameOf(source);
    if (shippedFiles.has(source.file) || source.data.extends !== undefined || !shippedNames.has(name))
      return true;
    const advice =
      name === commonName
        ? 'Declare additional fields in the resource files.'
        : `Start the file with "extends: ${name}" and declare only your changes.`;
    const message = `"${name}" is part of the engine. ${advice}`;
    issues.push(source.issueAt({ path: [] }, message));
    return false;
  });
}

const files = (sources: readonly Source[]): string[] => sources.map(({ file }) => file);

const resourceName = /^[a-z][a-z0-9_]{0,39}$/;

/** Names that profiles use for other objects than resources, with the objects. */
const reservedNames: ReadonlyMap<string, string> = new Map([
  ['events', 'event subscriptions'],
  ['fields', 'custom fields'],
  ['members', 'members'],
]);

/** Checks a resource's name, which is also used as its path and table name and in permissions. */
function checkName({ name, parsed }: Draft, next: Draft | undefined, issues: YamlIssue[]): void {
  const report = (message: string) => issues.push(parsed.issueAt({ path: ['name'] }, message));
  if (next?.name === name) report(`two files define the resource "${name}"`);
  if (name.startsWith('crm_')) report('names that start with "crm_" are reserved for the engine');
  const use = reservedNames.get(name);
  if (use !== undefined) report(`"${name}" is reserved for ${use} in profiles. Choose another name.`);
  if (name.startsWith('pg_')) report('names that start with "pg_" are reserved for PostgreSQL');
  if (!resourceName.test(name)) {
    const snake = snakeCase(name);
    const hint = resourceName.test(snake) ? `. ${didYouMean(snake)}` : '';
    report(
      `the file name must be a lowercase letter followed by up to 39 letters, digits or underscores${hint}`,
    );
  }
}

/** Checks that singulars are distinct, because they name the schemas in the API description. */
function checkSingulars(drafts: readonly Draft[], issues: YamlIssue[]): void {
  const owners = new Map<string, Draft>();
  for (const item of drafts) {
    const { name, parsed } = item;
    const singular = parsed.data.singular ?? name;
    const owner = owners.get(singular);
    if (owner === undefined || owner.name === name) owners.set(singular, item);
    else {
      const message = `"${singular}" is already the singular of ${owner.name} (${owner.parsed.file}). Set a different "singular".`;
      issues.push(parsed.issueAt({ path: ['singular'] }, message));
    }
  }
}

/** Checks that former names and aliases of resources are distinct. */
function checkFormerNames(drafts: readonly Draft[], issues: YamlIssue[]): void {
  const formerNames = new Map<string, string>();
  for (const { name: current, parsed } of drafts) {
    const { renamed_from: from, alias } = parsed.data;
    if (from === undefined) continue;
    const report = (message: string) => issues.push(parsed.issueAt({ path: ['renamed_from'] }, message));
    const other = formerNames.get(from);
    if (other !== undefined) report(`"${other}" is already renamed from "${from}"`);
    // Renaming the table would leave the other resource without its records.
    if (from !== current && drafts.some(({ name }) => name === from)) {
      report(
        alias === true
          ? `"${from}" is also the name of a resource. Remove the resource or the alias.`
          : `the resource "${from}" is still declared. Remove it, or "renamed_from" here.`,
      );
    }
    formerNames.set(from, current);
  }
}

/** A resource with its fields, before links between resources are checked. */
interface Draft {
  readonly name: string;
  readonly parsed: ValidatedSource;
  readonly fields: readonly Field[];
  /** Retired fields, of which only the columns still exist. */
  readonly retired: readonly Field[];
  /** Whether the resource itself is retired. */
  readonly isRetired: boolean;
  readonly locations: ReadonlyMap<string, FieldLocation>;
  /** The names of all shared fields. */
  readonly shared: readonly string[];
  /** Whether at least one field is invalid. */
  readonly isInvalid: boolean;
}

/** The parts of other files on which a resource's fields depend. */
interface DraftContext {
  /** The file with the shared fields. */
  readonly common: ValidatedSource | undefined;
  /** Returns the singular of a resource. */
  readonly singularOf: (resource: string) => string;
}

/** Reads a file's fields and the shared fields included in the file. */
function createDraft(
  parsed: ValidatedSource,
  { common, singularOf }: DraftContext,
  issues: YamlIssue[],
): Draft {
  const raw = parsed.data;
  const issueCount = issues.length;
  const locations = new Map<string, FieldLocation>();
  const shared = common?.data.fields ?? {};
  const names = sharedNames(raw.common, shared);
  for (const [index, name] of names.entries()) {
    if (names.indexOf(name) < index) {
      issues.push(parsed.issueAt({ path: ['common', index] }, `"${name}" is listed twice in common`));
    } else if (common !== undefined && Object.hasOwn(shared, name)) {
      locations.set(name, { parsed: common, path: ['fields', name] });
    } else {
      const hint = suggestion(name, Object.keys(shared));
      issues.push(parsed.issueAt({ path: ['common', index] }, `unknown shared field "${name}"${hint}`));
    }
  }
  for (const name of Object.keys(raw.fields)) {
    const path = ['fields', name];
    // An overlay can make a shared owner assignable.
    if (locations.has(name) && raw.fields[name]?.assignable !== true) {
      issues.push(parsed.issueAt({ path, key: true }, `"${name}" is already a shared field`));
    }
    locations.set(name, { parsed, path });
  }
  const fields = [...locations].map(([name, location]) => {
    const definition = location.parsed.data.fields[name];
    if (definition === undefined) return undefined;
    const report = reporter(location, issues);
    const field = readField(name, definition, formatLocation(location), report);
    return field && readAlternatives(field, definition, singularOf, report);
  });
  const validFields = fields.filter((field) => field !== undefined);
  const isRetired = ({ name }: Field) => locations.get(name)?.parsed.data.fields[name]?.retired === true;
  const customFields = readCustomFields(
    raw,
    formatLocation({ parsed, path: ['custom_fields'] }),
    validFields,
    (field, message) => {
      const location = locations.get(field.name);
      if (location !== undefined) reporter(location, issues)(undefined, message);
    },
  );
  const inUse = validFields.filter((field) => !isRetired(field));
  const groups = {
    fields: [
      // A missing field would be reported again.
      ...(validFields.length < fields.length
        ? inUse
        : withComputed(
            inUse,
            ({ name }) => locations.get(name)?.parsed.data.fields[name]?.computed,
            (field, offset, message) => {
              const location = locations.get(field.name);
              if (location === undefined) return;
              const { parsed, path } = location;
              const target = {
                path: [...path, 'computed'],
                ...(offset === undefined ? { key: true } : { offset }),
              };
              issues.push(parsed.issueAt(target, message));
            },
          )),
      ...customFields,
    ],
    retired: validFields.filter(isRetired),
  };
  checkFormerFields(validFields, locations, issues);
  return {
    name: resourceNameOf(parsed),
    parsed,
    locations,
    ...groups,
    isRetired: raw.retired === true,
    shared: Object.keys(shared),
    isInvalid: issues.length > issueCount,
  };
}

/** Checks that former names and aliases of fields are distinct. */
function checkFormerFields(
  fields: readonly Field[],
  locations: ReadonlyMap<string, FieldLocation>,
  issues: YamlIssue[],
): void {
  const formerNames = new Map<string, string>();
  for (const { name, renamedFrom: from, alias } of fields) {
    const location = locations.get(name);
    if (from === undefined || location === undefined) continue;
    const report = (message: string) => reporter(location, issues)('renamed_from', message);
    const other = formerNames.get(from);
    if (other !== undefined) report(`"${other}" is already renamed from "${from}"`);
    // Renaming the column would leave the other field without values.
    if (from !== name && locations.has(from)) {
      report(
        alias === undefined
          ? `the field "${from}" is still declared. Remove it, or "renamed_from" here.`
          : `"${from}" is also the name of a field. Remove the field or the alias.`,
      );
    }
    formerNames.set(from, name);
  }
}

/** Returns the location of a field as `file:line:column`. */
function formatLocation({ parsed, path }: FieldLocation): string {
  const { file, line, column } = parsed.issueAt({ path, key: true }, '');
  return `${file}:${line}:${column}`;
}

/**
 * Returns a function that reports issues in a field. An unknown type is reported at its value, all other
 * issues are reported at the key.
 */
const reporter =
  ({ parsed, path }: FieldLocation, issues: YamlIssue[]): ReportIssue =>
  (key, message) => {
    const target = key === undefined ? { path, key: true } : { path: [...path, key], key: key !== 'type' };
    issues.push(parsed.issueAt(target, message));
  };

/** Checks a resource's fields against each other and against other resources, and returns its definition. */
function completeDefinition(
  resource: Draft,
  drafts: readonly Draft[],
  invalidNames: ReadonlySet<string>,
  issues: YamlIssue[],
): ResourceDefinition {
  const { parsed, name } = resource;
  const raw = parsed.data;
  const fields = withRollups(resource.fields, {
    name,
    resources: drafts,
    isBroken: (other) => invalidNames.has(other),
    sourceOf: (field) => resource.locations.get(field.name)?.parsed.data.fields[field.name]?.rollup,
    report: (field, target, message) => {
      const location = resource.locations.get(field.name);
      if (location === undefined) return;
      const { parsed, path } = location;
      issues.push(parsed.issueAt({ ...target, path: [...path, ...target.path] }, message));
    },
  });
  const apiFields = [...fields, ...fields.flatMap((field) => aliasOf(field) ?? [])];
  const byName = new Map(apiFields.map((field) => [field.name, field]));
  const report = (path: readonly (string | number)[], message: string) =>
    issues.push(parsed.issueAt({ path }, message));

  for (const set of ['id', 'organization'] as const) {
    const matches = fields.filter((field) => field.set === set);
    const expected = set === 'id' ? 'id' : 'organization_id';
    if (matches.length !== 1 || matches[0]?.name !== expected) {
      const isShared = resource.shared.includes(expected) && !resource.locations.has(expected);
      const hint = isShared ? '. Add "common: all".' : '';
      report([], `exactly one field must have "set: ${set}", and its name must be "${expected}"${hint}`);
    }
  }
  checkColumns(resource, issues);
  for (const field of [...fields, ...resource.retired])
    checkLink(field, resource, drafts, invalidNames, issues);

  const query = declareQuery(raw, byName, report);
  const definition: ResourceDefinition = {
    name,
    file: parsed.file,
    singular: raw.singular ?? name,
    description: raw.description ?? raw.help ?? '',
    label: readLabels(raw),
    ...(raw.help === undefined ? {} : { help: raw.help }),
    isRetired: raw.retired === true,
    fields: apiFields,
    retired: resource.retired,
    ...readFormerName(name, raw, (key, message) => report([key], message)),
    uniques: readUniques(raw, byName, {
      atField: (field, message) => {
        const location = resource.locations.get(field.name);
        if (location !== undefined) reporter(location, issues)('unique', message);
      },
      atResource: (path, message) => report(['unique', ...path], message),
    }),
    scopes: readScopes(raw, byName, (target, message) => issues.push(parsed.issueAt(target, message))),
    checks: readChecks(raw, byName, (target, message) => issues.push(parsed.issueAt(target, message))),
    ...readLock(raw, byName, (target, message) => issues.push(parsed.issueAt(target, message))),
    defaults: readDefaults(
      byName,
      ({ name }) => {
        const location = resource.locations.get(name);
        return location?.parsed.data.fields[name]?.default_from;
      },
      (field, offset, message) => {
        const location = resource.locations.get(field.name);
        if (location === undefined) return;
        const { parsed, path } = location;
        issues.push(parsed.issueAt({ path: [...path, 'default_from'], offset }, message));
      },
    ),
    children: readChildren(raw, {
      name,
      fields: byName,
      resources: drafts,
      isBroken: (other) => invalidNames.has(other),
      report: (target, message) => issues.push(parsed.issueAt(target, message)),
    }),
    referrerOrders: [],
    ...query,
    screen: readScreen(raw, { fields, filters: query.filters, report }),
    ...readAggregates(raw, { fields: byName, filters: query.filters, report }),
    ...readTrash(raw, apiFields, (field, message) => {
      const location = resource.locations.get(field.aliasOf?.name ?? field.name);
      if (location !== undefined) reporter(location, issues)(undefined, message);
    }),
  };
  for (const field of fields) {
    const location = resource.locations.get(field.name);
    if (location !== undefined) checkTransitionScopes(field, definition.scopes, reporter(location, issues));
  }
  checkGroups(definition, {
    targetOf: (reference) => drafts.find((draft) => draft.name === reference.to)?.fields ?? [],
    report: (field, message) => {
      const location = resource.locations.get(field.name);
      if (location !== undefined)
        reporter(location, issues)(field.group === undefined ? undefined : 'group', message);
    },
  });
  return definition;
}

/** Maximum number of columns in a PostgreSQL table, excluding the engine's version column. */
const maxColumns = 1600 - 1;

/** Checks that each column belongs to one field, and that the table does not exceed {@link maxColumns}. */
function checkColumns({ parsed, fields, retired, locations }: Draft, issues: YamlIssue[]): void {
  const columns = [...fields, ...retired].flatMap((field) => field.type.columns?.(field) ?? []).length;
  // A trash adds a column.
  const limit = parsed.data.trash === undefined ? maxColumns : maxColumns - 1;
  if (columns > limit) {
    const message = `the fields need ${columns} columns, but a PostgreSQL table can have only ${limit}. Split the resource.`;
    issues.push(parsed.issueAt({ path: ['fields'], key: true }, message));
  }
  const owners = new Map<string, string>();
  for (const field of [...fields, ...retired]) {
    for (const column of field.type.columns?.(field) ?? []) {
      const owner = owners.get(`${field.name}${column.suffix}`);
      const location = locations.get(field.name);
      if (owner !== undefined && location !== undefined) {
        const message = `"${field.name}" needs the same column as "${owner}". Rename one of the fields.`;
        issues.push(location.parsed.issueAt({ path: location.path, key: true }, message));
      }
      owners.set(`${field.name}${column.suffix}`, field.name);
    }
  }
}

/** Key that `?expand=` adds to the record of a reference to one of several resources. */
const resourceKey = 'resource';

/** Checks that a reference points to resources, and that a joined field follows a reference to text fields. */
function checkLink(
  field: Field,
  { name, fields, retired, locations, isRetired }: Draft,
  drafts: readonly Draft[],
  invalidNames: ReadonlySet<string>,
  issues: YamlIssue[],
): void {
  const location = locations.get(field.name);
  if (location === undefined) return;
  const reportAt = (path: readonly (string | number)[], message: string) =>
    issues.push(location.parsed.issueAt({ path: [...location.path, ...path] }, message));
  const report = (key: string, message: string) => reportAt([key], message);
  const links = linksOf(field);
  const isUnused = isRetired || retired.includes(field);
  for (const [index, { to = '', alternativeOf }] of links.entries()) {
    const path = alternativeOf === undefined ? ['to'] : ['to', index];
    const target = drafts.find((draft) => draft.name === to);
    if (target === undefined && !invalidNames.has(to)) {
      const hint = /^users?$/.test(to)
        ? '. Users are not a resource. Use "type: user" without "to" for a member of the organization.'
        : suggestionOrList(
            to,
            drafts.map(({ name }) => name),
          );
      reportAt(path, `unknown resource "${to}"${hint}`);
    } else if (target?.isRetired === true && !isUnused) {
      reportAt(path, `${to} is retired, so records cannot refer to it. Retire this field, too.`);
    }
    if (alternativeOf !== undefined && target?.fields.some(({ name }) => name === resourceKey))
      reportAt(
        path,
        `${to} cannot be one of several resources, because it has a field named "${resourceKey}". Rename the field.`,
      );
  }
  if (field.to !== undefined && field.required && dependsOn(drafts, field.to, name))
    report(
      'required',
      `no record could be created, because required references go from ${field.to} back to ${name}. Make one of them nullable.`,
    );
  // A record of the same resource can be the target, because the first record can point to another resource.
  const dependent = (field.alternatives ?? []).find(
    ({ to = '' }) => field.required && to !== name && dependsOn(drafts, to, name),
  );
  if (dependent !== undefined)
    report(
      'required',
      `required references must not form a cycle, but they go from ${dependent.to} back to ${name}. Make one of them nullable.`,
    );
  if (field.through === undefined) return;
  const reference = fields.find(({ name }) => name === field.through);
  if (reference?.alternatives !== undefined) {
    const resources = reference.alternatives.map(({ to }) => to).join(', ');
    report(
      'through',
      `"${field.through}" can refer to several resources (${resources}), so a joined field cannot follow it. Use "expand" in requests.`,
    );
    return;
  }
  if (reference === undefined || !refersToOne(reference)) {
    const references = fields.filter(refersToOne).map(({ name }) => name);
    report(
      'through',
      `"${field.through}" is not a reference field of this resource${suggestionOrList(field.through, references)}`,
    );
    return;
  }
  const target = drafts.find((createDraft) => createDraft.name === reference.to && !createDraft.isInvalid);
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

/** Returns whether a field refers to at most one record. */
const refersToOne = (field: Field): boolean => field.type.refers === true && !refersToMany(field);

/** Returns whether required references go from one resource to another, or both are the same. */
function dependsOn(drafts: readonly Draft[], from: string, to: string): boolean {
  const reached = new Set([from]);
  // The loop also visits the resources that it adds.
  for (const name of reached)
    for (const field of drafts.find((draft) => draft.name === name)?.fields ?? [])
      if (field.required) for (const { to } of linksOf(field)) if (to !== undefined) reached.add(to);
  return reached.has(to);
}
