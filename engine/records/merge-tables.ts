import type { Generated } from 'kysely';
import { literal, type Placeholder, quote } from '../sql/index.ts';
import { bigintColumn, defineTable, now, tenant, textColumn } from '../tables/index.ts';
import { organizationOf, type RowScope } from './rows.ts';

declare module '../tables/index.ts' {
  interface TableRows {
    crm_merges: {
      organization_id: string;
      resource: string;
      /** ID of the record that remained. */
      record_id: string;
      /** ID of the record that was merged into it. */
      from_id: string;
      /** The row of the record that was merged, as JSON; empty if it was moved to the trash. */
      removed: Generated<string>;
      /** The columns of the record that remained that the merge has changed, as JSON: their values before and after it. */
      before: string;
      after: Generated<string>;
      /**
       * IDs of the rows whose references were moved, by table and column, as JSON. The value of an ID is whether the row referred to
       * both records, in a list.
       */
      moved: Generated<string>;
      merged_at: Generated<Date>;
    };
  }
}

/** The table of merges that can be undone. */
export const mergesTable = 'crm_merges';

const json = { type: 'string', columnType: 'jsonb', defaultRaw: "'{}'" };

const merges = defineTable(
  mergesTable,
  {
    ...tenant(),
    resource: { ...textColumn, primary: true },
    record_id: { ...bigintColumn, primary: true },
    from_id: { ...bigintColumn, primary: true },
    removed: { ...textColumn, defaultRaw: "''" },
    before: textColumn,
    after: { ...textColumn, defaultRaw: "''" },
    moved: json,
    merged_at: now,
  },
  {
    indexes: [{ name: 'crm_merges_merged_at', properties: ['merged_at'] }],
    resourceColumns: ['resource'],
    personalData: { label: 'merges', columns: ['removed', 'before', 'after'], erasure: 'delete' },
  },
);

/** The tables of merges. */
export const mergeTables = [merges];

/** Two records, one of which is merged into the other. */
export interface MergedPair extends RowScope {
  /** ID of the record that remains, as a decimal string. */
  readonly id: string;
  /** ID of the other record, as a decimal string. */
  readonly from: string;
}

const id = ({ id }: MergedPair) => id;
const from = ({ from }: MergedPair) => from;

/**
 * Returns SQL expressions for the IDs of the record that remains and of the other one. Only the IDs that are read become
 * parameters of the statement.
 */
export const pairSql = (
  $: Placeholder<MergedPair>,
): { readonly target: string; readonly source: string } => ({
  get target() {
    return `${$(id)}::bigint`;
  },
  get source() {
    return `${$(from)}::bigint`;
  },
});

/** Alias of a row of {@link mergesTable}. */
export const keptMerge = '_k';

/** Returns the condition for the row of a merge. */
export function isKeptMerge(resource: string, $: Placeholder<MergedPair>): string {
  const organization = organizationOf($);
  const { target, source } = pairSql($);
  return `${keptMerge}."organization_id" = ${organization} and ${keptMerge}."resource" = ${literal(resource)} and ${keptMerge}."record_id" = ${target} and ${keptMerge}."from_id" = ${source}`;
}

/**
 * Returns an UPDATE statement that adds the moved rows of a table to the row of a merge.
 * @param resource the resource of the merged records
 * @param table the table with the moved rows
 * @param moved SELECT statements for the IDs of the rows and for whether they referred to both records, by column
 */
export function keepMovedSql(
  resource: string,
  table: string,
  moved: Readonly<Record<string, string>>,
  $: Placeholder<MergedPair>,
): string {
  const lists = Object.entries(moved).map(
    ([column, rows]) =>
      `jsonb_build_object(${literal(column)}, (select coalesce(jsonb_object_agg(_x."id"::text, _x."both"), '{}') from (${rows}) _x("id", "both")))`,
  );
  return `update ${quote(mergesTable)} ${keptMerge} set "moved" = ${keptMerge}."moved" || jsonb_build_object(${literal(table)}, ${lists.join(' || ')}) where ${isKeptMerge(resource, $)}`;
}
