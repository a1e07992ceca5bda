import { CompiledQuery, type RawBuilder, sql } from 'kysely';
import type { Resource } from '../../../engine/compile/index.ts';
import { type Actor, recordChanges } from '../../../engine/effects/index.ts';
import { type FieldIssue, HttpError } from '../../../engine/errors.ts';
import { nullTestedFields } from '../../../engine/expressions/index.ts';
import { customName, type Field, refersToUser, type TextFormatName } from '../../../engine/fields/index.ts';
import {
  type CustomFields,
  commandCaller,
  compileErase,
  findDependents,
  ignoreLocksSql,
  type Matching,
  matching,
  maxDeleted,
  type OperationContext,
  type RemoveOperation,
} from '../../../engine/records/index.ts';
import { arrayText, literal, type Statement } from '../../../engine/sql/index.ts';
import { personalDataTables, type Tables } from '../../../engine/tables/index.ts';
import { issueMessageIn, messageIn, ownWords, TranslatedError } from '../../admin-ui/shell/index.ts';
import {
  chunks,
  createScan,
  type Key,
  keyCondition,
  type RowQuery,
  type RunStatement,
  type Scan,
  type SearchOptions,
} from './scan.ts';
import { erasureTexts } from './texts/index.ts';

const { later } = erasureTexts;

/** The person whose data is to be erased, and the organization. */
export interface ErasureInput {
  readonly organization: string;
  /**
   * Selections of the person's records. Each one consists of a resource and list filters, for example
   * `contacts?email=ada@example.com`.
   */
  readonly records: readonly string[];
  /** Strings unique to this person, for example an email address or a phone number. */
  readonly texts: readonly string[];
  /** The custom fields of the organization, which can also select records; none by default. */
  readonly customFields?: CustomFields | undefined;
}

type PersonalDataTable = Parameters<(typeof personalDataTables)['get']>[0];

/** The data about a person that was found or erased. */
export interface PersonalTraces {
  /** IDs of the person's records and of the records that are deleted with them, keyed by resource. */
  readonly records: ReadonlyMap<string, readonly string[]>;
  /** The strings searched for, from the input and from fields that identify the selected records. */
  readonly texts: readonly string[];
  /** Number of change log rows about these records and about deleted records with one of the strings. */
  readonly changes: number;
  /** Number of rows that contain one of the strings, keyed by table. */
  readonly rows: ReadonlyMap<PersonalDataTable, number>;
  /** IDs, by resource, of other records that contain one of the strings. These records stay unchanged. */
  readonly mentions: ReadonlyMap<string, readonly string[]>;
}

/** A search result, with the rows that an erasure deletes or clears. */
export interface SearchResult extends PersonalTraces {
  /** IDs of the selected records, keyed by resource. */
  readonly selected: ReadonlyMap<string, readonly string[]>;
  /** IDs of deleted records whose change log rows contain one of the strings, keyed by resource. */
  readonly deleted: ReadonlyMap<string, readonly string[]>;
  /** Primary keys of rows that contain one of the strings, keyed by table. */
  readonly keys: ReadonlyMap<PersonalDataTable, readonly Key[]>;
}

/** Maximum number of records per erasure. */
const maxErasedRecords = 100;
/** Maximum number of selections and of strings per request, and maximum length of a selection. */
const maxLines = 20;
const maxLineLength = 500;
/** Minimum and maximum length of a string. Shorter strings would match unrelated data. */
const [minTextLength, maxTextLength] = [5, 200];
/** Maximum number of strings to search for, including strings that identify the selected records. */
const maxTexts = 50;
/** Maximum number of mentions listed per resource. */
const maxMentions = 20;

/** Searches for people's data in organizations and erases it. */
export interface PersonErasure {
  /** Validates the input without reading records. @throws UserError if the input is invalid */
  readonly check: (input: ErasureInput) => void;
  /**
   * Searches for a person's data. Each statement reads only a few rows, so its duration does not depend on
   * the organization's size.
   * @throws UserError if the input is invalid or selects too many records
   */
  readonly find: (options: SearchOptions, input: ErasureInput) => Promise<SearchResult>;
  /**
   * Erases the data in a search result, even in locked records, and emits deletion events so that receivers erase their copies.
   * @param tables a transaction
   */
  readonly erase: (tables: Tables, actor: Actor, input: ErasureInput, result: SearchResult) => Promise<void>;
}

interface SearchableResource {
  readonly resource: Resource;
  readonly filters: Matching;
  /** Deletes a record, even if it is in the trash. */
  readonly remove: RemoveOperation;
}

/** Returns the context whose statements also access the trash, if the resource has one. */
const withTrashed = (context: OperationContext): OperationContext =>
  context.definition.trash === undefined ? context : { ...context, trashed: 'included' };

/** Compiles the statements for all resources. */
export function createErasure(resources: readonly Resource[]): PersonErasure {
  const searchable = new Map<string, SearchableResource>(
    resources.map((resource) => [
      resource.name,
      { resource, filters: matching(withTrashed(resource.context)), remove: compileErase(resource.context) },
    ]),
  );
  const check: PersonErasure['check'] = (input) => {
    assertWithinLimits(input);
    selectionsOf(searchable, input);
    input.texts.forEach(textOf);
  };
  const find: PersonErasure['find'] = async (options, input) => {
    const { organization } = input;
    const { run } = options;
    check(input);
    const [settings] = await run(
      sql<{
        phone_region: string | null;
      }>`select phone_region from crm_organizations where id = ${organization}::bigint`,
    );
    const selections = selectionsOf(searchable, input, settings?.phone_region ?? undefined);
    const selected = await recordsOf(run, selections, organization);
    const lookupValues: string[] = [];
    for (const [name, ids] of selected)
      lookupValues.push(...(await lookupTexts(run, searchable.get(name), input, ids)));
    const texts = [
      ...new Set([
        ...input.texts.map(textOf),
        ...lookupValues.filter(({ length }) => length >= minTextLength && length <= maxTextLength),
      ]),
    ];
    if (texts.length > maxTexts)
      throw new TranslatedError(later('tooManyTermsFound', { max: String(maxTexts) }));
    const records = await withDependents(run, searchable, selected, organization);
    const scan = createScan(options, organization);
    const deleted = await deletedBefore(options, scan, resources, organization, texts);
    let changes = 0;
    for (const { name } of resources) {
      const ids = [...(records.get(name) ?? []), ...(deleted.get(name) ?? [])];
      const [row] = await run(sql<{ count: number }>`select count(*)::int as count from crm_ledger l
        where ${ofRecords(organization, name, ids)}`);
      changes += row?.count ?? 0;
    }
    const keys = new Map<PersonalDataTable, readonly Key[]>();
    const erased = combined(records, deleted);
    for (const [table, { key }] of personalDataTables) {
      const matches: Key[] = [];
      for await (const value of scan({ table, key, matches: hasPersonalData(table, texts, erased) }))
        matches.push(value);
      keys.set(table, matches);
    }
    const mentions = new Map<string, readonly string[]>();
    for (const { name } of resources) {
      const mentioningIds: string[] = [];
      const matches = sql<boolean>`(t.id <> all (${arrayText(records.get(name) ?? [])}::bigint[])
        and ${hasText(sql`row_to_json(t)::text`, texts)})`;
      for await (const [id = ''] of scan({ table: name, key: [['id', 'bigint']], matches })) {
        if (mentioningIds.push(id) === maxMentions) break;
      }
      if (mentioningIds.length > 0) mentions.set(name, mentioningIds);
    }
    const rows = new Map([...keys].map(([table, { length }]) => [table, length]));
    return { records, selected, texts, changes, rows, mentions, deleted, keys };
  };
  const erase: PersonErasure['erase'] = async (tables, actor, input, result) => {
    const { records, selected, deleted, texts, keys } = result;
    if (resources.some(({ definition }) => definition.locked !== undefined))
      await sql.raw(ignoreLocksSql).execute(tables);
    await deleteRecords(tables, searchable, actor, input.organization, selected);
    const erased = combined(records, deleted);
    for (const { name, definition } of resources) {
      const ids = erased.get(name) ?? [];
      await sql`update crm_ledger l set record = case when record is not null then '{}' end, before = case when before is not null then ${sql.raw(erasedBefore(definition))} end
        where ${ofRecords(input.organization, name, ids)}`.execute(tables);
      await sql`delete from crm_idempotency where organization_id = ${input.organization}::bigint
        and record_id = any (${arrayText(ids)}::bigint[]) and split_part(path, '/', 1) = ${name}`.execute(
        tables,
      );
      await sql`delete from crm_jobs where organization_id = ${input.organization}::bigint
        and resource = ${name} and record_id = any (${arrayText(ids)}::bigint[])`.execute(tables);
      await sql`delete from crm_proposals where organization_id = ${input.organization}::bigint
        and resource = ${name} and record_id = any (${arrayText(ids)}::bigint[])`.execute(tables);
      await sql`delete from crm_merges where organization_id = ${input.organization}::bigint
        and resource = ${name} and (record_id = any (${arrayText(ids)}::bigint[]) or from_id = any (${arrayText(ids)}::bigint[]))`.execute(
        tables,
      );
    }
    for (const [table, { columns, erasure, alsoSet = {}, key }] of personalDataTables) {
      const assignments = sql.join([
        ...columns.map((column) => sql`${sql.ref(column)} = ''`),
        ...Object.entries(alsoSet).map(([column, value]) => sql`${sql.ref(column)} = ${sql.raw(value)}`),
      ]);
      for (const keyBatch of chunks(keys.get(table) ?? [], rowsPerStatement)) {
        const condition = sql`t.organization_id = ${input.organization}::bigint and ${keyCondition(key, keyBatch)} and ${hasPersonalData(table, texts, erased)}`;
        await (erasure === 'delete'
          ? sql`delete from ${sql.table(table)} t where ${condition}`
          : sql`update ${sql.table(table)} t set ${assignments} where ${condition}`
        ).execute(tables);
      }
    }
    await recordChanges(tables, actor, {
      organization: input.organization,
      action: 'forget',
      object: 'person',
      objectId: null,
    });
  };
  return { check, find, erase };
}

/** IDs of records, keyed by resource. */
type RecordIds = ReadonlyMap<string, readonly string[]>;

/** Returns the IDs in both maps, without duplicates. */
const combined = (first: RecordIds, second: RecordIds): RecordIds =>
  new Map(
    [...new Set([...first.keys(), ...second.keys()])].map((name) => [
      name,
      [...new Set([...(first.get(name) ?? []), ...(second.get(name) ?? [])])],
    ]),
  );

/** Returns the condition that row `t` of a table contains one of the strings, or data of one of the records. */
function hasPersonalData(
  table: PersonalDataTable,
  texts: readonly string[],
  records: RecordIds,
): RawBuilder<unknown> {
  const { columns = [], record } = personalDataTables.get(table) ?? {};
  const containsText = anyContains(columns, texts);
  if (record === undefined) return containsText;
  const { resource, id, container } = record;
  const pairs = [...records].flatMap(([name, ids]) => ids.map((value) => [name, value] as const));
  const isOfRecord = (row: string) => sql`(${sql.ref(`${row}.${resource}`)}, ${sql.ref(`${row}.${id}`)}) in (
    select * from unnest(${arrayText(pairs.map(([name]) => name))}::text[], ${arrayText(pairs.map(([, value]) => value))}::bigint[]))`;
  return sql`(${containsText} or ${isOfRecord('t')} or exists (select from ${sql.table(table)} _m
    where _m.organization_id = t.organization_id and ${sql.ref(`_m.${container}`)} = t.id and ${isOfRecord('_m')}))`;
}

/** Maximum number of rows per statement. */
const rowsPerStatement = 500;

/** Checks the input's size. @throws UserError if it exceeds the limits for one person */
function assertWithinLimits({ records, texts }: ErasureInput): void {
  if (records.length > maxLines)
    throw new TranslatedError(
      later('tooManyLines', { max: String(maxLines), number: String(records.length) }),
    );
  if (texts.length > maxLines)
    throw new TranslatedError(later('tooManyTerms', { max: String(maxLines), number: String(texts.length) }));
  if (records.some(({ length }) => length > maxLineLength))
    throw new TranslatedError(later('lineTooLong', { max: String(maxLineLength) }));
}

/** A parsed selection of the person's records. */
interface RecordSelection {
  readonly name: string;
  readonly filters: Matching;
  readonly conditions: ReturnType<Matching['parse']>;
}

/**
 * Parses the record selections in the input.
 * @param phoneRegion see {@link Matching}
 * @throws UserError if a selection is invalid, or if the input is empty
 */
function selectionsOf(
  searchable: ReadonlyMap<string, SearchableResource>,
  { records, texts, customFields }: ErasureInput,
  phoneRegion?: string,
): RecordSelection[] {
  if (records.length === 0 && texts.length === 0) {
    throw new TranslatedError(later('nothingEntered'));
  }
  return records.map((selection) => {
    const [, name = '', filter = ''] = /^([^?]*)\?(.+)$/s.exec(selection.trim()) ?? [];
    const { filters } = searchable.get(name) ?? {};
    if (filters === undefined) {
      throw new TranslatedError(
        later('invalidSelection', { selection, resources: [...searchable.keys()].join(', ') }),
      );
    }
    const query = filterOf(filter);
    const ownFields = customFields?.get(name);
    const parameters = filters.parameters(ownFields);
    const unknownParameter = Object.keys(query).find((parameter) => !parameters.includes(parameter));
    if (unknownParameter !== undefined)
      throw new TranslatedError(
        later('unknownFilter', { filter: unknownParameter, resource: name, filters: parameters.join(', ') }),
      );
    const problems: FieldIssue[] = [];
    const conditions = filters.parse(query, problems, ownFields, phoneRegion);
    const [problem] = problems;
    if (problem !== undefined)
      throw new TranslatedError((language) =>
        language === 'en'
          ? ownWords(problem.message)
          : later('about', { field: problem.field, message: issueMessageIn(problem, language) })(language),
      );
    return { name, filters, conditions };
  });
}

/** Returns the selected records' IDs by resource. @throws UserError if there are too many */
async function recordsOf(
  run: RunStatement,
  selections: readonly RecordSelection[],
  organization: string,
): Promise<Map<string, string[]>> {
  const idsByResource = new Map<string, string[]>();
  for (const { name, filters, conditions } of selections) {
    const plan = {
      organization,
      caller: commandCaller(organization),
      parsedQuery: conditions,
      limit: maxErasedRecords + 1,
    };
    const ids = (await run(queryOf(filters.findStatement(plan)))).map(({ id }) => String(id));
    idsByResource.set(name, [...new Set([...(idsByResource.get(name) ?? []), ...ids])]);
    const count = [...idsByResource.values()].reduce((sum, { length }) => sum + length, 0);
    if (count > maxErasedRecords)
      throw new TranslatedError(later('tooManyRecords', { max: String(maxErasedRecords) }));
  }
  return idsByResource;
}

/** Parses a query string. Repeated parameters become arrays. */
function filterOf(text: string): Record<string, string | string[]> {
  const parameters = new URLSearchParams(text);
  return Object.fromEntries(
    [...new Set(parameters.keys())].map((name) => {
      const values = parameters.getAll(name);
      return [name, values.length === 1 ? (values[0] ?? '') : values];
    }),
  );
}

/** Trims a string. @throws UserError if it is too short to be unique to a person, or too long */
function textOf(input: string): string {
  const text = input.trim();
  if (text.length < minTextLength)
    throw new TranslatedError(later('termTooShort', { text, min: String(minTextLength) }));
  if (text.length > maxTextLength)
    throw new TranslatedError(
      later('termTooLong', { text: `${text.slice(0, 20)}…`, max: String(maxTextLength) }),
    );
  return text;
}

/** Formats of custom fields whose values identify a person. */
const identifying: readonly (TextFormatName | undefined)[] = ['email', 'phone'];

/**
 * Returns the values of the records' fields that identify a person: `lookup` fields, which partners and channels use to find the
 * records, and custom fields with email addresses and phone numbers.
 */
async function lookupTexts(
  run: RunStatement,
  searchable: SearchableResource | undefined,
  { organization, customFields }: ErasureInput,
  ids: readonly string[],
): Promise<string[]> {
  if (searchable === undefined || ids.length === 0) return [];
  const { name: resource, definition } = searchable.resource;
  const ownFields: readonly Field[] = customFields?.get(resource) ?? [];
  const values = [
    ...definition.fields
      .filter(({ lookup }) => lookup !== undefined)
      .map(({ name }) => [name, sql.ref(`t.${name}`)] as const),
    ...ownFields
      .filter(({ format }) => identifying.includes(format))
      .map(({ name, custom }) => [name, sql`t.${sql.ref(customName)} ->> ${custom?.key}::text`] as const),
  ];
  if (values.length === 0) return [];
  // One extra character is enough to detect strings that are too long.
  const columns = values.map(([name, value]) => sql`left(${value}, ${maxTextLength + 1}) as ${sql.id(name)}`);
  const rows = await run(
    sql<
      Record<string, string | null>
    >`select ${sql.join(columns)} from ${sql.table(searchable.resource.name)} t
      where t.organization_id = ${organization}::bigint and t.id = any (${arrayText(ids)}::bigint[]) order by t.id`,
  );
  return rows.flatMap((row) => Object.values(row).filter((value) => typeof value === 'string'));
}

/** Returns the IDs of deleted records whose change log rows contain one of the strings, keyed by resource. */
async function deletedBefore(
  { run }: SearchOptions,
  scan: Scan,
  resources: readonly Resource[],
  organization: string,
  texts: readonly string[],
): Promise<Map<string, string[]>> {
  const idsByResource = new Map(resources.map(({ name }) => [name, new Set<string>()]));
  const matches = sql<boolean>`(t.version is not null and (${hasText(sql`t.record`, texts)} or ${hasText(sql`t.before`, texts)}))`;
  const ledger = {
    table: 'crm_ledger',
    key: [
      ['transaction', 'xid8'],
      ['id', 'bigint'],
    ],
    matches,
    extraColumns: ['object', 'object_id'],
  } as const;
  for await (const [, , object = '', id = ''] of scan(ledger)) idsByResource.get(object)?.add(id);
  const deletedByResource = new Map<string, string[]>();
  for (const [name, ids] of idsByResource) {
    const existing = new Set<string>();
    for (const idBatch of chunks([...ids], rowsPerStatement)) {
      const rows = await run(sql<{ id: string }>`select t.id::text as id from ${sql.table(name)} t
        where t.organization_id = ${organization}::bigint and t.id = any (${arrayText(idBatch)}::bigint[])`);
      for (const { id } of rows) existing.add(id);
    }
    deletedByResource.set(
      name,
      [...ids].filter((id) => !existing.has(id)),
    );
  }
  return deletedByResource;
}

/**
 * Returns an SQL expression for the previous record in an erased row `l` of the change log. A deletion keeps the fields that
 * the resource's scopes read, so that it still appears in the change feed of callers who could see the record. It keeps only
 * values that say nothing about the person: users, references, truth values, known values, and null if a scope tests for it.
 */
function erasedBefore({ scopes, fields, trash }: Resource['definition']): string {
  const names = new Set(scopes.flatMap(({ condition }) => condition.fields));
  const nullTested = new Set(scopes.flatMap(({ condition }) => [...nullTestedFields(condition)]));
  const kept = fields
    .filter(({ name }) => names.has(name))
    .flatMap((field) => {
      const { name, type, values } = field;
      const key = literal(name);
      const value = `l.before::json -> ${key}`;
      const isNull = `json_typeof(${value}) = 'null'`;
      const isAlwaysKept = refersToUser(field) || type.refers === true || type.operand === 'boolean';
      const isKept = [
        ...(isAlwaysKept ? [`not ${isNull}`] : []),
        ...(values === undefined
          ? []
          : [`l.before::json ->> ${key} = any(${literal(arrayText(values.list))}::text[])`]),
        ...(nullTested.has(name) ? [isNull] : []),
      ];
      return isKept.length === 0 ? [] : [`(${key}, case when ${isKept.join(' or ')} then ${value} end)`];
    });
  if (kept.length === 0) return "'{}'";
  const record = `(select json_object_agg(_k.key, _k.value) from (values ${kept.join(', ')}) _k(key, value) where _k.value is not null)`;
  const deletes = trash === undefined ? "= 'delete'" : "in ('delete', 'trash', 'purge')";
  return `case when l.action ${deletes} then coalesce(${record}::text, '{}') else '{}' end`;
}

const ofRecords = (organization: string, resource: string, ids: readonly string[]) =>
  sql`l.organization_id = ${organization}::bigint and l.object = ${resource} and l.object_id = any (${arrayText(ids)}::bigint[]) and l.version is not null`;

const anyContains = (columns: readonly string[], texts: readonly string[]) =>
  sql`(${sql.join(
    columns.map((column) => hasText(sql.ref(`t.${column}`), texts)),
    sql` or `,
  )})`;

/**
 * Returns an SQL condition that is true if an expression contains one of the strings, in any encoding in
 * which the string could have been sent.
 */
function hasText(expression: ReturnType<typeof sql>, texts: readonly string[]) {
  const forms = [...new Set(texts.flatMap(formsOf))];
  const numbers = texts.filter(isPhoneNumber).map((text) => text.replace(/\D/g, ''));
  // OFFSET 0 makes PostgreSQL convert the expression only once instead of once per form.
  const containsAny = (normalized: ReturnType<typeof sql>, candidates: readonly string[]) =>
    sql`exists (select from (select ${normalized} as text offset 0) _t, unnest(${arrayText(candidates)}::text[]) _f(form) where position(_f.form in _t.text) > 0)`;
  const inForms = containsAny(sql`lower(${expression})`, forms);
  const inDigits = containsAny(sql`regexp_replace(${expression}, '[^0-9]', '', 'g')`, numbers);
  return numbers.length === 0 ? inForms : sql`(${inForms} or ${inDigits})`;
}

/** Returns whether a string could be a phone number: at least seven digits, and only common separators. */
const isPhoneNumber = (text: string): boolean =>
  /^[+\d\s()./-]+$/.test(text) && text.replace(/\D/g, '').length >= 7;

/**
 * Returns a string's forms: unchanged, in lowercase and in uppercase, each also in JSON and form encoding.
 * ASCII letters are converted to lowercase.
 */
function formsOf(text: string): string[] {
  // PostgreSQL converts non-ASCII letters to lowercase only in some collations.
  const letters = [text, text.toLowerCase(), text.toUpperCase()];
  return [...new Set(letters)]
    .flatMap(encodingsOf)
    .map((form) => form.replace(/[A-Z]/g, (letter) => letter.toLowerCase()));
}

function encodingsOf(text: string): string[] {
  const json = JSON.stringify(text).slice(1, -1);
  const escaped = json.replace(
    /[\u0080-\uffff]/g,
    (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
  const form = new URLSearchParams([['', text]]).toString().slice(1);
  return [text, json, escaped, form, encodeURIComponent(text)];
}

/** Returns the records and the records that a delete of these records would also remove, by resource. */
async function withDependents(
  run: RunStatement,
  searchable: ReadonlyMap<string, SearchableResource>,
  records: ReadonlyMap<string, readonly string[]>,
  organization: string,
): Promise<ReadonlyMap<string, readonly string[]>> {
  const all = new Map([...records].map(([name, ids]) => [name, new Set(ids)]));
  for (const [name, ids] of records) {
    const context = searchable.get(name)?.resource.context;
    const search = context && findDependents(withTrashed(context));
    if (search === undefined || ids.length === 0) continue;
    const rows = await run(queryOf(search.bind({ organization, caller: commandCaller(organization), ids })));
    if (rows.length > maxDeleted)
      throw new TranslatedError(
        later('tooManyDependents', { max: String(maxDeleted), record: `${name} ${ids.join(', ')}` }),
      );
    for (const { resource, id } of rows) {
      const dependents = all.get(String(resource)) ?? new Set();
      all.set(String(resource), dependents.add(String(id)));
    }
  }
  return new Map([...all].map(([name, ids]) => [name, [...ids]]));
}

/**
 * Deletes records in an order in which no record prevents the delete of another one.
 * @throws UserError if other records prevent a delete
 */
async function deleteRecords(
  tables: Tables,
  searchable: ReadonlyMap<string, SearchableResource>,
  actor: Actor,
  organization: string,
  records: ReadonlyMap<string, readonly string[]>,
): Promise<void> {
  const caller = commandCaller(organization, actor);
  let pending = [...records].flatMap(([name, ids]) => ids.map((id) => ({ name, id })));
  while (pending.length > 0) {
    const rejected: typeof pending = [];
    let rejection: unknown;
    for (const entry of pending) {
      const { name, id } = entry;
      const operation = searchable.get(name)?.remove;
      if (operation === undefined) continue;
      const plan = operation.plan({ caller, id });
      const { rows } = await queryOf(operation.statement(plan)).execute(tables);
      if (rows.length > 0 || operation.rejection === undefined) continue;
      const reasons = await queryOf(operation.rejection.statement(plan)).execute(tables);
      try {
        operation.rejection.remaining(
          plan,
          reasons.rows.map((row) => Object.values(row).map(String)),
        );
      } catch (cause) {
        if (!(cause instanceof HttpError)) throw cause;
        // Another record's delete has already removed the record.
        if (cause.status === 404) continue;
        rejection ??= new TranslatedError(
          (language) =>
            later('about', { field: `${name} ${id}`, message: messageIn(cause, language) })(language),
          { cause },
        );
      }
      rejected.push(entry);
    }
    if (rejected.length === pending.length && rejection !== undefined) throw rejection;
    pending = rejected;
  }
}

/** Converts a compiled statement to a query. Without a statement, the query returns no rows. */
const queryOf = (statement: Statement | undefined): RowQuery<Record<string, unknown>> => ({
  execute: async (tables) =>
    statement === undefined
      ? { rows: [] }
      : tables.executeQuery<Record<string, unknown>>(
          CompiledQuery.raw(statement.text, [...statement.values]),
        ),
});
