import { CompiledQuery, sql } from 'kysely';
import type { Resource } from '../../../engine/compile/index.ts';
import { type Actor, recordChanges } from '../../../engine/effects/index.ts';
import { type FieldIssue, UserError } from '../../../engine/errors.ts';
import { grantMasks, type Matching, matching, wildcard } from '../../../engine/records/index.ts';
import { arrayText, type Statement } from '../../../engine/sql/index.ts';
import { personalDataTables, type Tables } from '../../../engine/tables/index.ts';

/** Who is to be forgotten. */
export interface ErasureInput {
  readonly organization: string;
  /** Which records are the person's: a resource and filters of its list, as in `resource?filter=value`. */
  readonly records: readonly string[];
  /** Texts that only this person has, such as an address, a telephone number. */
  readonly texts: readonly string[];
}

type TableOfPeople = Parameters<(typeof personalDataTables)['get']>[0];

/** What is known of a person, or what was erased. */
export interface PersonalTraces {
  /** By resource: the ids of the person's records. */
  readonly records: ReadonlyMap<string, readonly string[]>;
  /** What was looked for besides: the texts that were given, and those by which the records are found. */
  readonly texts: readonly string[];
  /** Rows of the ledger about these records, and about such as were deleted before and had one of the texts. */
  readonly changes: number;
  /** By table: rows that have one of the texts. */
  readonly rows: ReadonlyMap<TableOfPeople, number>;
  /** Other records that have one of the texts, with the ids of some; they stay as they are. */
  readonly mentions: ReadonlyMap<string, readonly string[]>;
}

/** Records that can be erased at once; a person has few. */
export const maxErasedRecords = 100;
/** Characters that a text has at least: shorter ones are in anything. */
const shortest = 5;
/** Other records that are named, for each resource. */
const mostMentions = 20;
/** How long a statement may look through an organization, in milliseconds. */
const longestMs = 600_000;

/** Erases people from organizations. */
export interface Erasure {
  /** What there is of a person. @throws UserError if the wish makes no sense, or means too many records */
  readonly find: (tables: Tables, wish: ErasureInput) => Promise<PersonalTraces>;
  /** Erases it. Also events of the deletions are made, so that receivers erase their copies. @param tables a transaction */
  readonly forget: (tables: Tables, actor: Actor, wish: ErasureInput) => Promise<PersonalTraces>;
}

interface Known {
  readonly resource: Resource;
  readonly filters: Matching;
}

/** Compiles what is needed for each resource. */
export function createErasure(resources: readonly Resource[]): Erasure {
  const known = new Map<string, Known>(
    resources.map((resource) => [resource.name, { resource, filters: matching(resource.context) }]),
  );
  const find = async (tables: Tables, wish: ErasureInput): Promise<PersonalTraces> => {
    await sql`select set_config('statement_timeout', ${String(longestMs)}, true)`.execute(tables);
    const records = await recordsOf(tables, known, wish);
    const own: string[] = [];
    for (const [name, ids] of records) own.push(...(await lookupTexts(tables, known.get(name), wish, ids)));
    const texts = [
      ...new Set([...wish.texts.map(textOf), ...own.filter(({ length }) => length >= shortest)]),
    ];
    const deleted = await deletedBefore(tables, resources, wish.organization, texts);
    const about = new Map(
      resources.map(({ name }) => [name, [...(records.get(name) ?? []), ...(deleted.get(name) ?? [])]]),
    );
    const counts = await Promise.all(
      [...about].map(async ([name, ids]) => {
        const { rows } = await sql<{ count: number }>`select count(*)::int as count from crm_ledger l
          where ${ofRecords(wish.organization, name, ids)}`.execute(tables);
        return rows[0]?.count ?? 0;
      }),
    );
    const rows = new Map<TableOfPeople, number>();
    for (const [table, { columns }] of personalDataTables) {
      const found = await sql<{ count: number }>`select count(*)::int as count from ${sql.table(table)} t
        where t.organization_id = ${wish.organization}::bigint and ${has(columns, texts)}`.execute(tables);
      rows.set(table, found.rows[0]?.count ?? 0);
    }
    const mentions = new Map<string, readonly string[]>();
    for (const { name } of resources) {
      const found = await sql<{ id: string }>`select t.id::text from ${sql.table(name)} t
        where t.organization_id = ${wish.organization}::bigint and t.id <> all (${arrayText(records.get(name) ?? [])}::bigint[])
          and ${hasText(sql`row_to_json(t)::text`, texts)}
        order by t.id limit ${mostMentions}`.execute(tables);
      if (found.rows.length > 0)
        mentions.set(
          name,
          found.rows.map(({ id }) => id),
        );
    }
    return { records, texts, changes: counts.reduce((sum, count) => sum + count, 0), rows, mentions };
  };
  const forget = async (tables: Tables, actor: Actor, wish: ErasureInput): Promise<PersonalTraces> => {
    const traces = await find(tables, wish);
    for (const [name, ids] of traces.records) {
      for (const id of ids) await run(tables, removal(known.get(name), actor, wish.organization, id));
    }
    // Once more: those that are gone now are among them.
    const gone = await deletedBefore(tables, resources, wish.organization, traces.texts);
    for (const { name } of resources) {
      const ids = [...new Set([...(traces.records.get(name) ?? []), ...(gone.get(name) ?? [])])];
      await sql`update crm_ledger l set record = case when record is not null then '{}' end, before = case when before is not null then '{}' end
        where ${ofRecords(wish.organization, name, ids)}`.execute(tables);
      await sql`delete from crm_idempotency where organization_id = ${wish.organization}::bigint
        and record_id = any (${arrayText(ids)}::bigint[]) and split_part(path, '/', 1) = ${name}`.execute(
        tables,
      );
    }
    for (const [table, { columns, rows }] of personalDataTables) {
      const found = sql`organization_id = ${wish.organization}::bigint and ${has(columns, traces.texts)}`;
      const emptied = sql.join(columns.map((column) => sql`${sql.ref(column)} = ''`));
      await (rows === 'go'
        ? sql`delete from ${sql.table(table)} t where ${found}`
        : sql`update ${sql.table(table)} t set ${emptied} where ${found}`
      ).execute(tables);
    }
    await recordChanges(tables, actor, {
      organization: wish.organization,
      action: 'forget',
      object: 'person',
      objectId: null,
    });
    return traces;
  };
  return { find, forget };
}

/** The records that a wish names, by resource. */
async function recordsOf(
  tables: Tables,
  known: ReadonlyMap<string, Known>,
  { organization, records, texts }: ErasureInput,
): Promise<Map<string, string[]>> {
  if (records.length === 0 && texts.length === 0) {
    throw new UserError(
      'say which records are the person\'s, as in "resource?filter=value", or which text is',
    );
  }
  const found = new Map<string, string[]>();
  let count = 0;
  for (const wanted of records) {
    const [, name = '', filter = ''] = /^([^?]*)\?(.+)$/s.exec(wanted.trim()) ?? [];
    const { filters } = known.get(name) ?? {};
    if (filters === undefined) {
      throw new UserError(
        `"${wanted}" is no resource with filters, as in "resource?filter=value"; there are ${[...known.keys()].join(', ')}`,
      );
    }
    const query = filterOf(filter);
    const foreign = Object.keys(query).find((parameter) => !filters.parameters.includes(parameter));
    if (foreign !== undefined)
      throw new UserError(`${foreign} is no filter of ${name}: there are ${filters.parameters.join(', ')}`);
    const problems: FieldIssue[] = [];
    const asked = filters.parse(query, problems);
    const [problem] = problems;
    if (problem !== undefined) throw new UserError(problem.message);
    const plan = { organization, caller: callerOf(organization), asked, most: maxErasedRecords + 1 };
    const ids = (await run(tables, filters.found(plan))).map(({ id }) => String(id));
    found.set(name, [...new Set([...(found.get(name) ?? []), ...ids])]);
    count += ids.length;
    if (count > maxErasedRecords)
      throw new UserError(`these are more than ${maxErasedRecords} records: a person has fewer`);
  }
  return found;
}

/** Parameters of a list; of the same name together. */
function filterOf(text: string): Record<string, string | string[]> {
  const given = new URLSearchParams(text);
  return Object.fromEntries(
    [...new Set(given.keys())].map((name) => {
      const values = given.getAll(name);
      return [name, values.length === 1 ? (values[0] ?? '') : values];
    }),
  );
}

/** @throws UserError for a text that is too short to be somebody's alone */
function textOf(given: string): string {
  const text = given.trim();
  if (text.length < shortest)
    throw new UserError(`"${text}" is too short: a text of a person has at least ${shortest} characters`);
  return text;
}

/** The texts by which partners and channels find these records: those of fields with a `lookup`. */
async function lookupTexts(
  tables: Tables,
  known: Known | undefined,
  { organization }: ErasureInput,
  ids: readonly string[],
): Promise<string[]> {
  const fields = known?.resource.definition.fields.filter(({ lookup }) => lookup !== undefined) ?? [];
  if (known === undefined || fields.length === 0 || ids.length === 0) return [];
  const { rows } = await sql<
    Record<string, string | null>
  >`select ${sql.join(fields.map(({ name }) => sql.ref(`t.${name}`)))}
    from ${sql.table(known.resource.name)} t
    where t.organization_id = ${organization}::bigint and t.id = any (${arrayText(ids)}::bigint[])`.execute(
    tables,
  );
  return rows.flatMap((row) => Object.values(row).filter((value) => typeof value === 'string'));
}

/** Records that are gone and of which the ledger has one of the texts, by resource. */
async function deletedBefore(
  tables: Tables,
  resources: readonly Resource[],
  organization: string,
  texts: readonly string[],
): Promise<Map<string, string[]>> {
  const gone = new Map<string, string[]>();
  for (const { name } of resources) {
    const { rows } = await sql<{ id: string }>`select distinct l.object_id::text as id from crm_ledger l
      where l.organization_id = ${organization}::bigint and l.object = ${name} and l.version is not null
        and (${hasText(sql`l.record`, texts)} or ${hasText(sql`l.before`, texts)})
        and not exists (select from ${sql.table(name)} t where t.organization_id = l.organization_id and t.id = l.object_id)`.execute(
      tables,
    );
    gone.set(
      name,
      rows.map(({ id }) => id),
    );
  }
  return gone;
}

const ofRecords = (organization: string, resource: string, ids: readonly string[]) =>
  sql`l.organization_id = ${organization}::bigint and l.object = ${resource} and l.object_id = any (${arrayText(ids)}::bigint[]) and l.version is not null`;

const has = (columns: readonly string[], texts: readonly string[]) =>
  sql`(${sql.join(
    columns.map((column) => hasText(sql.ref(`t.${column}`), texts)),
    sql` or `,
  )})`;

/** SQL of whether a text has one of some, in any of the forms in which it may have been sent. */
function hasText(expression: ReturnType<typeof sql>, texts: readonly string[]) {
  const forms = [...new Set(texts.flatMap(formsOf))];
  const numbers = texts.filter(isNumber).map((text) => text.replace(/\D/g, ''));
  const inForms = sql`exists (select from unnest(${arrayText(forms)}::text[]) _f(form) where position(_f.form in lower(${expression})) > 0)`;
  const inDigits = sql`exists (select from unnest(${arrayText(numbers)}::text[]) _f(form) where position(_f.form in regexp_replace(${expression}, '[^0-9]', '', 'g')) > 0)`;
  return numbers.length === 0 ? inForms : sql`(${inForms} or ${inDigits})`;
}

/** A telephone number, however it is written. */
const isNumber = (text: string): boolean =>
  /^[+\d\s()./-]+$/.test(text) && text.replace(/\D/g, '').length >= 7;

/** A text in small and in capital letters, as it is, in JSON, and in a form; ASCII in small letters. */
function formsOf(text: string): string[] {
  // PostgreSQL lowers letters beyond ASCII only in some collations.
  const letters = [text, text.toLowerCase(), text.toUpperCase()];
  return [...new Set(letters)]
    .flatMap(writingsOf)
    .map((each) => each.replace(/[A-Z]/g, (letter) => letter.toLowerCase()));
}

function writingsOf(text: string): string[] {
  const json = JSON.stringify(text).slice(1, -1);
  const escaped = json.replace(
    /[\u0080-\uffff]/g,
    (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
  const form = new URLSearchParams([['', text]]).toString().slice(1);
  return [text, json, escaped, form, encodeURIComponent(text)];
}

const callerOf = (organization: string, actor?: Actor) =>
  ({
    principal: {
      kind: actor?.kind ?? 'command',
      actor: actor?.id ?? null,
      name: actor?.name ?? null,
      user: null,
      organization,
      grants: grantMasks([{ object: wildcard, action: wildcard }]),
    },
    requestId: actor?.requestId ?? '',
  }) as const;

/** The statement of a DELETE. */
function removal(
  known: Known | undefined,
  actor: Actor,
  organization: string,
  id: string,
): Statement | undefined {
  const operation = known?.resource.operations.remove;
  const caller = callerOf(organization, actor);
  const nothing = { query: {}, headers: {}, strict: false, body: () => ({}), bytes: () => Buffer.alloc(0) };
  return operation?.statement(operation.plan({ caller, id, ...nothing }));
}

async function run(tables: Tables, statement: Statement | undefined): Promise<Record<string, unknown>[]> {
  if (statement === undefined) return [];
  const { text, values } = statement;
  const { rows } = await tables.executeQuery<Record<string, unknown>>(CompiledQuery.raw(text, [...values]));
  return rows;
}
