import { type Database, type DatabaseConfig, isStatementTimeout, type TextRows } from '../database/index.ts';
import type { FieldRequirements } from '../definition/index.ts';
import { quote } from '../sql/index.ts';
import type { ApiChange } from './api.ts';
import { changeOf, type Intent } from './changes.ts';
import type { ConversionCheck } from './conversion-checks.ts';
import { driftOf } from './drift.ts';
import { readMigrationLog } from './migration-log.ts';
import type { Model } from './model.ts';
import { onlineForm } from './online.ts';
import { withRetypes } from './retype.ts';
import { type Analyzed, analyzed, inASecondColumn, whileOthersWrite } from './statements.ts';
import { storedModel } from './stored.ts';

/** How many rows a table has. */
export interface RowCount {
  readonly count: number;
  readonly isEstimate: boolean;
}

/** A statement of a plan. */
export interface PlannedStatement extends Analyzed {
  /** The rows that it touches; undefined without a database, and for tables that are not there yet. */
  readonly rows: RowCount | undefined;
}

/** A check of a plan. */
export interface PlannedCheck extends Pick<ConversionCheck, 'name' | 'says' | 'refuses'> {
  /** Undefined without a database, and where it could not be counted within {@link countMs}. */
  readonly count: number | undefined;
  /** Whether counting was given up. */
  readonly tookTooLong: boolean;
  /** Up to ten of them; without values where these are sensitive. */
  readonly examples: readonly {
    readonly organization: string;
    readonly id: string;
    readonly value: string | null;
  }[];
}

/** What the edits of the definitions will do. */
export interface MigrationPlan {
  readonly statements: readonly PlannedStatement[];
  readonly checks: readonly PlannedCheck[];
  readonly api: readonly ApiChange[];
  /** Parts of the service that write or find records by what goes away. */
  readonly partners: readonly { readonly file: string; readonly name: string }[];
  /** What would be dropped, and how to say what is meant. */
  readonly undecided: readonly string[];
  /** What the connected database lacks of the migrations, and how else it differs; undefined without one. */
  readonly database: DatabaseState | undefined;
}

/** How a database stands to the migrations. */
export interface DatabaseState {
  readonly pending: readonly string[];
  readonly problems: readonly string[];
  /** What has not been dropped yet because running nodes use it, one line each. */
  readonly waiting: readonly string[];
  readonly drift: readonly string[];
}

/** How long each statement of a plan may take, in milliseconds: it runs where others work. */
export const countMs = 5000;
/** Rows up to which a table is counted; the statistics say roughly how many a larger one has. */
const countedRows = 100_000;
/** Examples of a check, and characters of each value. */
const [maxExamples, maxValue] = [10, 60];

/**
 * What the definitions change since the last migration. Writes nothing, neither files nor rows.
 * @param database where rows are counted, with statements of up to {@link countMs}; undefined: nothing is
 * @throws UserError as {@link changeOf}
 */
export async function planChanges(
  config: DatabaseConfig,
  model: Model,
  needs: readonly FieldRequirements[],
  intent: Intent,
  database: Database | undefined,
): Promise<MigrationPlan> {
  const { statements, checks, api, undecided } = await changeOf(config, model, intent);
  const count = database && counter(database);
  const planned: PlannedStatement[] = [];
  const retyped = new Set(
    withRetypes(statements).flatMap((part) => (typeof part === 'string' ? [] : part.statements)),
  );
  for (const statement of statements.map(analyzed)) {
    const touched = statement.touches === 'nothing' ? undefined : statement.table;
    const rows = touched === undefined ? undefined : await count?.(touched);
    const isOnline = config.databaseAddress !== undefined && rows?.count !== 0;
    if (isOnline && retyped.has(statement.sql)) planned.push({ ...inASecondColumn(statement), rows });
    else
      planned.push({
        ...(isOnline && onlineForm(statement.sql) ? whileOthersWrite(statement) : statement),
        rows,
      });
  }
  const checked: PlannedCheck[] = [];
  for (const check of checks) checked.push(await examined(check, database));
  return {
    statements: planned,
    checks: checked,
    api,
    partners: partnersOf(needs, api),
    undecided,
    database: database && (await stateOf(database, config)),
  };
}

const run = (database: Database, text: string) => database.run({ name: '', text, values: [] });

/** As {@link run}; undefined if it took too long. */
async function runInTime(database: Database, text: string): Promise<TextRows | undefined> {
  try {
    return await run(database, text);
  } catch (cause) {
    if (isStatementTimeout(cause)) return undefined;
    throw cause;
  }
}

/** How a database stands to the migrations of a folder. */
export async function stateOf(database: Database, config: DatabaseConfig): Promise<DatabaseState> {
  const { applied, pending, problems, waiting, unfinishedTables } = await readMigrationLog(database, config);
  const { tables } = storedModel(config, (name) => applied.includes(name));
  const compared = Object.entries(tables).filter(([name]) => !unfinishedTables.includes(name));
  return { pending, problems, waiting, drift: await driftOf(database, Object.fromEntries(compared)) };
}

/** Counts the rows of tables, each once. */
function counter(database: Database): (table: string) => Promise<RowCount | undefined> {
  const known = new Map<string, RowCount | undefined>();
  return async (table) => {
    if (!known.has(table)) known.set(table, await rowsOf(database, table));
    return known.get(table);
  };
}

async function rowsOf(database: Database, table: string): Promise<RowCount | undefined> {
  const [found] = await run(
    database,
    `select reltuples::bigint::text from pg_class where oid = to_regclass('${quote(table)}')`,
  );
  if (found === undefined) return undefined;
  const estimate = Number(found[0]);
  if (estimate > countedRows) return { count: estimate, isEstimate: true };
  const counted = await runInTime(
    database,
    `select count(*)::text from (select from ${quote(table)} limit ${countedRows + 1}) t`,
  );
  // -1 means that the table has no statistics.
  if (counted === undefined) return estimate < 0 ? undefined : { count: estimate, isEstimate: true };
  const [row] = counted;
  const count = Number(row?.[0]);
  return { count, isEstimate: count > countedRows };
}

/** Counts the records that a check is about, and shows some. */
async function examined(check: ConversionCheck, database: Database | undefined): Promise<PlannedCheck> {
  const { name, says, refuses, table, shown, where } = check;
  const planned = { name, says, refuses, count: undefined, tookTooLong: false, examples: [] };
  if (database === undefined) return planned;
  const [exists] = await run(database, `select to_regclass('${quote(table)}')::text`);
  if (exists?.[0] === null) return planned;
  const counted = await runInTime(database, `select count(*)::text from ${quote(table)} where ${where}`);
  if (counted === undefined) return { ...planned, tookTooLong: true };
  const value = shown === undefined ? 'null' : `left(${quote(shown)}::text, ${maxValue})`;
  const examples = await runInTime(
    database,
    `select "organization_id"::text, "id"::text, ${value} from ${quote(table)} where ${where} order by "organization_id", "id" limit ${maxExamples}`,
  );
  return {
    ...planned,
    count: Number(counted[0]?.[0]),
    examples: (examples ?? []).map(([organization, id, text]) => ({
      organization: String(organization),
      id: String(id),
      value: text === null || text === undefined ? null : String(text),
    })),
  };
}

/** Which parts of the service need what callers lose. */
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
