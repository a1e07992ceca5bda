import {
  type Database,
  type DatabaseConfig,
  isStatementTimeout,
  sqlState,
  type TextRows,
} from '../database/index.ts';
import type { FieldRequirements } from '../definition/index.ts';
import { quote } from '../sql/index.ts';
import { singleLine } from '../tables/index.ts';
import type { ApiChange } from './api.ts';
import { type Change, ofKind, type RetypeColumns } from './changes/change.ts';
import { catalogOnly, type Effects, strongerLock } from './changes/effects.ts';
import { kindOf } from './changes/index.ts';
import type { DroppedValues } from './changes/kind.ts';
import { preparations, replacedParts, retypeColumns } from './changes/retype-columns.ts';
import type { ConversionCheck } from './conversion-checks.ts';
import { dependentsSql } from './dependents.ts';
import { driftOf } from './drift.ts';
import { readMigrationLog } from './migration-log.ts';
import type { Model } from './model.ts';
import { changeOf, type Intent } from './model-change.ts';
import { type Renames, storedModel } from './stored-model.ts';

/** Number of rows in a table. */
export interface RowCount {
  readonly count: number;
  readonly isEstimate: boolean;
}

/** A statement in a migration plan, and the effects of its change. */
export interface PlannedStatement extends Effects {
  readonly sql: string;
  /** One-line summary. */
  readonly title: string;
  readonly table: string | undefined;
  /** The effect as a verb phrase. */
  readonly says: string;
  /**
   * Number of rows in the table that the statement reads or writes, or undefined without a database or if the
   * table does not exist yet.
   */
  readonly rows: RowCount | undefined;
  /** The dropped tables and columns. */
  readonly drops: readonly PlannedDrop[];
}

/** A dropped table or column. */
export interface PlannedDrop {
  /** For example `leads` or `leads.fax`. */
  readonly name: string;
  /** Number of records with a value. Undefined without a database or if counting exceeded {@link countMs}. */
  readonly count: number | undefined;
}

/** A check in a migration plan. */
export interface PlannedCheck extends Pick<ConversionCheck, 'name' | 'says' | 'refuses' | 'replaces'> {
  /** Number of affected records. Undefined without a database or if counting exceeded {@link countMs}. */
  readonly count: number | undefined;
  /** Whether counting timed out. */
  readonly tookTooLong: boolean;
  /** Up to ten affected records. `value` is null for sensitive fields. */
  readonly examples: readonly {
    readonly organization: string;
    readonly id: string;
    readonly value: string | null;
  }[];
}

/** The names of the tables that a migration creates, changes and drops. */
export interface PlannedTables {
  readonly created: readonly string[];
  readonly changed: readonly string[];
  readonly dropped: readonly string[];
}

/** The effects of changes to the definitions, planned before a migration is written. */
export interface MigrationPlan {
  readonly tables: PlannedTables;
  readonly statements: readonly PlannedStatement[];
  readonly checks: readonly PlannedCheck[];
  readonly api: readonly ApiChange[];
  /** Modules that read or write a renamed or removed field or resource. */
  readonly partners: readonly { readonly file: string; readonly name: string }[];
  /** Unconfirmed drops, each with its alternatives. */
  readonly undecided: readonly string[];
  /** Manually created objects that use a retyped column. The migration fails if any exist. */
  readonly dependents: readonly string[];
  /** State of the connected database, or undefined without one. */
  readonly database: DatabaseState | undefined;
}

/** The state of a database, compared with the migration files. */
export interface DatabaseState {
  readonly pending: readonly string[];
  /** Interrupted, failed or running migrations and the commands that finish them, one line each. */
  readonly unfinished: readonly string[];
  readonly problems: readonly string[];
  /** Migrations whose contract is pending, with the reason, one line each. */
  readonly waiting: readonly string[];
  readonly drift: readonly string[];
}

/** Timeout for each counting statement, in milliseconds. It is short because the database is in use. */
export const countMs = 5000;
/** Maximum number of rows to count. For larger tables, the estimate from PostgreSQL's statistics is used. */
const countedRows = 100_000;
/** Maximum number of examples per check, and maximum number of characters per value. */
const [maxExamples, maxValue] = [10, 60];
const [undefinedTable, undefinedColumn] = ['42P01', '42703'];

/**
 * Plans the migration for changes to the definitions since the last migration. Does not write files or rows.
 * @param database the database in which to count rows, if any
 * @throws UserError for the same reasons as {@link changeOf}
 */
export async function planChanges(
  config: DatabaseConfig,
  model: Model,
  needs: readonly FieldRequirements[],
  intent: Intent,
  database: Database | undefined,
): Promise<MigrationPlan> {
  const { changes, renamed, checks, api, undecided } = await changeOf(config, model, intent);
  /** Tables whose rows could not be counted in time, for example because they are locked. */
  const slowTables = new Set<string>();
  const countRows = database && counter(database, slowTables);
  const statements: PlannedStatement[] = [];
  /** The strongest lock that the migration's transaction holds on each table. */
  const heldLocks = new Map<string, Effects['lock']>();
  const createdTables = new Set(ofKind(changes, 'createTable').map(({ table }) => table));
  for (const change of changes) {
    const parts = change.kind === 'retypeColumns' ? change.changes : [change];
    if (change.table !== undefined && createdTables.has(change.table)) {
      for (const part of parts) statements.push(...planned(part, onNewTable(part), undefined, []));
      continue;
    }
    const table = formerTable(renamed, change.table ?? '');
    for (const part of parts) {
      const { touches } = kindOf(part).risk(part);
      const isServer = config.databaseAddress !== undefined;
      const isOnline =
        isServer && (touches === 'nothing' ? undefined : await countRows?.(table))?.count !== 0;
      const held = heldLocks.get(table) ?? 'none';
      const effects = !isServer
        ? usually(part)
        : !isOnline
          ? underLock(usually(part), held)
          : change.kind === 'retypeColumns'
            ? inTypeChange(part, change, held)
            : onServer(part, held);
      // A type change can drop an additional column, but its value is part of the new column.
      const drops: PlannedDrop[] = [];
      for (const values of change.kind === 'retypeColumns' ? [] : (kindOf(part).drops?.(part) ?? []))
        drops.push(await countDropped(values, table, slowTables.has(table) ? undefined : database));
      const rows = touches === 'nothing' ? undefined : await countRows?.(table);
      statements.push(...planned(part, effects, rows, drops));
      const isDeferred =
        isOnline && (change.kind === 'retypeColumns' || kindOf(part).online?.(part, [])?.now.length === 0);
      if (!isDeferred) heldLocks.set(table, strongerLock(held, effects.lock));
    }
    if (change.kind === 'retypeColumns') heldLocks.set(table, retypeColumns.risk(change).lock);
  }
  const plannedChecks: PlannedCheck[] = [];
  for (const check of checks) {
    const records = await ifStored(checkRecords(check, database, slowTables.has(check.table)));
    plannedChecks.push(records ?? uncounted(check));
  }
  const dropped = ofKind(changes, 'dropTable').map(({ table }) => table);
  const changed = new Set(changes.flatMap(({ table }) => table ?? []));
  return {
    tables: {
      created: [...createdTables],
      changed: [...changed].filter((table) => !createdTables.has(table) && !dropped.includes(table)),
      dropped,
    },
    statements,
    checks: plannedChecks,
    api,
    partners: partnersOf(needs, api),
    undecided,
    dependents:
      database?.kind === 'postgresql'
        ? await dependentsOf(database, config, ofKind(changes, 'retypeColumns'), renamed, slowTables)
        : [],
    database: database && (await stateOf(database, config)),
  };
}

const run = (database: Database, text: string) => database.run({ name: '', text, values: [] });

/** Runs a query and returns its rows, or undefined if the query times out. */
async function runInTime(database: Database, text: string): Promise<TextRows | undefined> {
  try {
    return await run(database, text);
  } catch (cause) {
    if (isStatementTimeout(cause)) return undefined;
    throw cause;
  }
}

/** Returns a result, or undefined if the table or column has not been created by a migration yet. */
async function ifStored<T>(result: Promise<T>): Promise<T | undefined> {
  try {
    return await result;
  } catch (cause) {
    const state = sqlState(cause);
    if (state !== undefinedTable && state !== undefinedColumn) throw cause;
    return undefined;
  }
}

/** Compares a database with the migration files. */
export async function stateOf(database: Database, config: DatabaseConfig): Promise<DatabaseState> {
  const { applied, pending, problems, waiting, unfinished, unfinishedTables } = await readMigrationLog(
    database,
    config,
  );
  const names = unfinished.map(({ name }) => name);
  // An unfinished migration's transaction is committed, and tables with remaining steps have temporary
  // columns.
  const { tables } = storedModel(config, (name) => applied.includes(name) || names.includes(name));
  const finishedTables = Object.entries(tables).filter(([name]) => !unfinishedTables.includes(name));
  return {
    pending: pending.filter((name) => !names.includes(name)),
    unfinished: unfinished.map(({ text }) => text),
    problems,
    waiting,
    drift: await driftOf(database, Object.fromEntries(finishedTables)),
  };
}

/** Returns a function that counts a table's rows and caches the result. */
function counter(
  database: Database,
  slowTables: Set<string>,
): (table: string) => Promise<RowCount | undefined> {
  const counts = new Map<string, RowCount | undefined>();
  return async (table) => {
    if (!counts.has(table)) counts.set(table, await rowsOf(database, table, slowTables));
    return counts.get(table);
  };
}

async function rowsOf(
  database: Database,
  table: string,
  slowTables: Set<string>,
): Promise<RowCount | undefined> {
  const [statistics] = await run(
    database,
    `select reltuples::bigint::text from pg_class where oid = to_regclass('${quote(table)}')`,
  );
  if (statistics === undefined) return undefined;
  const estimate = Number(statistics[0]);
  if (estimate > countedRows) return { count: estimate, isEstimate: true };
  const rows = await runInTime(
    database,
    `select count(*)::text from (select from ${quote(table)} limit ${countedRows + 1}) t`,
  );
  if (rows === undefined) slowTables.add(table);
  // -1 means that the table has never been analyzed.
  if (rows === undefined) return estimate < 0 ? undefined : { count: estimate, isEstimate: true };
  const [row] = rows;
  const count = Number(row?.[0]);
  return { count, isEstimate: count > countedRows };
}

/** Returns objects that use columns whose types change, in tables with rows. */
async function dependentsOf(
  database: Database,
  config: DatabaseConfig,
  retypes: readonly RetypeColumns[],
  renamed: Renames,
  slowTables: ReadonlySet<string>,
): Promise<readonly string[]> {
  const lines: string[] = [];
  const { tables } = storedModel(config);
  for (const { table: newName, columns } of retypes.map(replacedParts)) {
    const table = formerTable(renamed, newName);
    if (!(await isTable(database, table))) continue;
    // Reading the catalog does not wait for locks, but checking whether a table has rows does.
    const row = slowTables.has(table)
      ? undefined
      : await runInTime(database, `select '' from ${quote(table)} limit 1`);
    if (row?.length === 0) continue;
    const formerNames = Object.entries(renamed.columns?.[newName] ?? {});
    const formerName = (name: string) => formerNames.find(([, to]) => to === name)?.[0] ?? name;
    const names = columns.map(formerName);
    const known = [
      ...Object.keys(tables[table]?.indexes ?? {}),
      ...Object.keys(tables[table]?.foreignKeys ?? {}),
      ...Object.keys(tables[table]?.checks ?? {}),
    ];
    for (const [name] of await run(database, dependentsSql({ table, columns: names, known })))
      lines.push(`${names.map((column) => `${table}.${column}`).join(', ')}: ${name}`);
  }
  return lines;
}

/** The effects of a change, and a description of them. */
type DescribedEffects = Effects & Pick<PlannedStatement, 'says'>;

/** Returns the planned statements for a change. */
function planned(
  change: Change,
  { lock, touches, risks, says }: DescribedEffects,
  rows: RowCount | undefined,
  drops: readonly PlannedDrop[],
): readonly PlannedStatement[] {
  const kind = kindOf(change);
  return kind.sql(change).map((sql, index, { length }) => ({
    sql,
    title: kind.title?.(change) ?? singleLine(sql),
    lock,
    table: change.table,
    touches,
    risks,
    says,
    rows,
    // Values are dropped by the last statement.
    drops: index === length - 1 ? drops : [],
  }));
}

/** Returns the effects of a change on a table that is not in use. */
const usually = (change: Change): DescribedEffects => {
  const kind = kindOf(change);
  return { ...kind.risk(change), says: kind.describe(change) };
};

/** Returns the effects of a change on a table that is created by the same migration and not visible yet. */
const onNewTable = (change: Change): DescribedEffects =>
  change.kind === 'createTable'
    ? usually(change)
    : change.kind === 'addForeignKey'
      ? {
          ...usually(change),
          touches: 'nothing',
          risks: [],
          says: 'adds a foreign key to the new table, and briefly blocks writes to the table it refers to',
        }
      : { lock: 'none', touches: 'nothing', risks: [], says: 'completes the new table' };

const withoutBlocking = (effects: DescribedEffects): DescribedEffects => ({
  ...effects,
  risks: effects.risks.filter((risk) => risk !== 'blocking'),
});

/** Returns the effects of a change on a table in use. @param held the lock already held by the migration */
function onServer(change: Change, held: Effects['lock']): DescribedEffects {
  const effects = usually(change);
  const online = kindOf(change).online?.(change, []);
  if (online === undefined) return underLock(effects, held);
  return { ...withoutBlocking(effects), lock: online.lock ?? effects.lock, says: online.says };
}

/** Returns the effects of one part of a type change on a table in use. It does not block reads and writes. */
function inTypeChange(part: Change, change: RetypeColumns, held: Effects['lock']): DescribedEffects {
  const effects = withoutBlocking(usually(part));
  if (part.kind === 'alterTypes') {
    const { says } = retypeColumns.online?.(change, []) ?? effects;
    return { ...effects, lock: 'ROW EXCLUSIVE', says };
  }
  const described = { ...effects, says: `part of the type change: ${effects.says}` };
  const prepared: readonly Change[] = preparations(change);
  if (!prepared.includes(part)) return described;
  return underLock(described, prepared.some(({ kind }) => kind === 'nullability') ? catalogOnly.lock : held);
}

/** Returns the effects of a change in a transaction that already holds a lock on the table until it ends. */
function underLock(effects: DescribedEffects, held: Effects['lock']): DescribedEffects {
  const lock = strongerLock(effects.lock, held);
  if (lock === effects.lock || effects.touches === 'nothing') return effects;
  return {
    ...effects,
    lock,
    risks: [...new Set([...(['blocking'] as const), ...effects.risks])],
    says: `${effects.says}; earlier statements in the migration already hold this lock`,
  };
}

/** Returns the name of a table before the migration. */
const formerTable = ({ tables = {} }: Renames, table: string): string =>
  Object.entries(tables).find(([, name]) => name === table)?.[0] ?? table;

/** Counts the records that would lose a value. @param stored the table's name before the migration */
async function countDropped(
  { table, column }: DroppedValues,
  stored: string,
  database: Database | undefined,
): Promise<PlannedDrop> {
  const name = column === undefined ? table : `${table}.${column}`;
  if (database === undefined) return { name, count: undefined };
  const where = column === undefined ? '' : ` where nullif(${quote(column)}::text, '') is not null`;
  const sql = `select count(*)::text from ${quote(stored)}${where}`;
  const counts = await ifStored(runInTime(database, sql));
  return { name, count: counts === undefined ? undefined : Number(counts[0]?.[0]) };
}

async function isTable(database: Database, name: string): Promise<boolean> {
  const [relation] = await run(database, `select to_regclass('${quote(name)}')::text`);
  return typeof relation?.[0] === 'string';
}

const uncounted = ({ name, says, refuses, replaces }: ConversionCheck): PlannedCheck => ({
  name,
  says,
  refuses,
  ...(replaces && { replaces }),
  count: undefined,
  tookTooLong: false,
  examples: [],
});

/** Counts the records affected by a check, and reads some of them as examples. */
async function checkRecords(
  check: ConversionCheck,
  database: Database | undefined,
  isSlow: boolean,
): Promise<PlannedCheck> {
  const { table, exampleColumn, where } = check;
  if (database === undefined) return uncounted(check);
  if (isSlow) return { ...uncounted(check), tookTooLong: true };
  const counts = await runInTime(database, `select count(*)::text from ${quote(table)} where ${where}`);
  if (counts === undefined) return { ...uncounted(check), tookTooLong: true };
  const value = exampleColumn === undefined ? 'null' : `left(${quote(exampleColumn)}::text, ${maxValue})`;
  const examples = await runInTime(
    database,
    `select "organization_id"::text, "id"::text, ${value} from ${quote(table)} where ${where} order by ${quote(table)}."organization_id", ${quote(table)}."id" limit ${maxExamples}`,
  );
  return {
    ...uncounted(check),
    count: Number(counts[0]?.[0]),
    examples: (examples ?? []).map(([organization, id, text]) => ({
      organization: String(organization),
      id: String(id),
      value: text === null || text === undefined ? null : String(text),
    })),
  };
}

/** Returns the modules that need a field or resource name that will no longer work. */
function partnersOf(
  needs: readonly FieldRequirements[],
  api: readonly ApiChange[],
): MigrationPlan['partners'] {
  return api.flatMap(({ kind, loses }) => {
    if (loses === undefined || kind === 'deprecated') return [];
    return needs
      .filter(
        ({ resource, fields }) =>
          resource === loses.resource && (loses.field === undefined || loses.field in fields),
      )
      .map(({ file }) => ({
        file,
        name: loses.field === undefined ? loses.resource : `${loses.resource}.${loses.field}`,
      }));
  });
}
