import { recalculateSql } from '../records/index.ts';
import { literal, quote } from '../sql/index.ts';
import type { Execute } from './session.ts';

/** A column in the database. */
export interface StoredColumn {
  readonly name: string;
  readonly type: string;
  readonly isFilled: boolean;
  readonly default: string | null;
}

/**
 * A batched update of a table's rows, starting after a key. Sets missing values, recalculates rollups or, if both are absent,
 * fires the trigger that computes the new columns.
 */
export interface BatchUpdate {
  readonly fill: string;
  readonly after?: readonly [organization: string, id: string];
  readonly missing?: { readonly column: string; readonly value: string };
  /** Stored rollups to recalculate, and the tables with the records that they combine. Their rows have to be locked first. */
  readonly rollups?: { readonly of: readonly string[]; readonly values: Readonly<Record<string, string>> };
}

/** The last step of a type change, which swaps the columns. */
export interface ColumnSwap {
  readonly table: string;
  readonly columns: readonly {
    readonly name: string;
    /** PostgreSQL type, including its collation. */
    readonly type: string;
    /** SQL expression for the new value. */
    readonly using: string;
    readonly default: string | null;
    readonly isFilled: boolean;
    readonly was: StoredColumn | null;
  }[];
  readonly gone: readonly StoredColumn[];
  /** Statements that drop the current indexes and foreign keys. */
  readonly drops: readonly string[];
  /** Names of these indexes and foreign keys. Absent in steps stored by earlier versions. */
  readonly known?: readonly string[];
  readonly renames: readonly string[];
  /** All columns of the table before the swap. */
  readonly all: readonly string[];
}

/**
 * A step that runs after the migration's transaction, in its own transaction. `build` statements run outside
 * any transaction, and all of them run again after an interruption. Stored as JSON in the migration log.
 * Earlier versions stored statements as strings.
 */
export type DeferredStep =
  | string
  | { readonly table: string; readonly sql: string }
  | { readonly table: string; readonly build: readonly string[] }
  | BatchUpdate
  | { readonly swap: ColumnSwap };

/** Formats deferred steps as an SQL literal for the migration log. Returns `null` if no steps remain. */
export const stepJson = (steps: readonly DeferredStep[]): string =>
  steps.length === 0 ? 'null' : literal(JSON.stringify(steps));

/** Returns the tables that deferred steps change or depend on. */
export const stepTables = (steps: readonly DeferredStep[]): readonly string[] =>
  steps.flatMap((step) => {
    if (typeof step === 'string') return [];
    if ('swap' in step) return [step.swap.table];
    return 'fill' in step ? [step.fill, ...(step.rollups?.of ?? [])] : [step.table];
  });

/** Returns whether deferred steps change the types of a table's columns. */
export const changesTypes = (steps: readonly DeferredStep[]): boolean =>
  steps.some((step) => typeof step !== 'string' && 'swap' in step);

/** Column that marks records whose value does not fit the new type. */
export const unfit = '"_unfit"';

/** Reads a table's columns from the database. */
export async function storedColumns(execute: Execute, table: string): Promise<readonly StoredColumn[]> {
  const rows = await execute(
    `select a.attname::text as name, format_type(a.atttypid, a.atttypmod) as type, a.attnotnull as filled, pg_get_expr(d.adbin, d.adrelid) as default
     from pg_attribute a left join pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
     where a.attrelid = '${quote(table)}'::regclass and a.attnum > 0 and not a.attisdropped order by a.attnum`,
  );
  return rows.map(({ name, type, filled, default: value }) => ({
    name: String(name),
    type: String(type),
    isFilled: filled === true,
    default: typeof value === 'string' ? value : null,
  }));
}

/** Number of rows per backfill transaction. Concurrent writes to these rows wait until it commits. */
const batchRows = 500;
/** Number of rows per recalculation of rollups, which reads all records that refer to them. */
const rollupRows = 50;

/**
 * Returns SQL that backfills the next batch and selects the key of its last row. It does not return a row
 * after the last batch.
 */
export function backfillSql({ fill, after, missing }: BatchUpdate): string {
  const tableName = quote(fill);
  const column = missing === undefined ? unfit : quote(missing.column);
  const missingCondition = missing === undefined ? '' : ` and t.${column} is null`;
  const startCondition = laterRows(after);
  return `with _b as (select "organization_id", "id" from ${tableName} ${startCondition} order by "organization_id", "id" limit ${batchRows}),
    _u as (update ${tableName} t set ${column} = ${missing?.value ?? `t.${column}`} from _b where t."organization_id" = _b."organization_id" and t."id" = _b."id"${missingCondition})
    select "organization_id"::text as organization, "id"::text as id from _b order by _b."organization_id" desc, _b."id" desc limit 1`;
}

/** Returns the condition that selects the rows after a key. */
const laterRows = (after: BatchUpdate['after']): string =>
  after === undefined
    ? ''
    : `where ("organization_id", "id") > (${after.map((value) => `${literal(value)}::bigint`).join(', ')})`;

/** Returns SQL that locks the next rows whose rollups have to be recalculated, and selects their keys. */
export const lockRowsSql = ({ fill, after }: BatchUpdate): string =>
  // The order must not refer to the text of the keys.
  `select t."organization_id"::text as organization, t."id"::text as id from ${quote(fill)} t ${laterRows(after)} order by t."organization_id", t."id" limit ${rollupRows} for no key update`;

/** Returns SQL that recalculates the rollups of locked rows. */
export function recalculateRowsSql(
  { fill, rollups }: BatchUpdate,
  rows: readonly { readonly organization: string; readonly id: string }[],
): string {
  const arrayOf = (values: readonly string[]) => `array[${values.map(literal).join(', ')}]::bigint[]`;
  return recalculateSql(
    { resource: fill, values: rollups?.values ?? {} },
    {
      organizations: arrayOf(rows.map(({ organization }) => organization)),
      ids: arrayOf(rows.map(({ id }) => id)),
    },
  );
}
