import type { CheckShape, ColumnShape, ForeignKeyShape } from '../../database/index.ts';
import { type IndexShape, quote, type TriggerShape } from '../../sql/index.ts';
import type { Effects } from './effects.ts';

/** A change to the tables. Migration files and the migration log contain changes as JSON values. */
export type Change = SimpleChange | RetypeColumns;

/** A change that consists of a single step. */
export type SimpleChange =
  | CreateTable
  | RenameTable
  | DropTable
  | AddColumns
  | RenameColumn
  | AlterTypes
  | DropColumns
  | Nullability
  | Default
  | CreateIndex
  | DropIndex
  | RenameIndex
  | AddForeignKey
  | DropForeignKey
  | RenameForeignKey
  | AddConstraint
  | DropConstraint
  | CreateTrigger
  | DropTrigger
  | Check
  | Backfill
  | Recalculate
  | RenameValues
  | Raw;

/** A change to a table. */
interface TableChange<K extends string> {
  readonly kind: K;
  readonly table: string;
}

/** A change to a column. */
interface ColumnChange<K extends string> extends TableChange<K> {
  readonly column: string;
}

/** A change to an index, a constraint or a trigger. */
interface PartChange<K extends string> extends TableChange<K> {
  readonly name: string;
}

/** A new name for an index or a foreign key. */
interface Rename<K extends string> extends PartChange<K> {
  readonly to: string;
}

/** Creates a table with its primary key. */
export interface CreateTable extends TableChange<'createTable'> {
  readonly columns: Readonly<Record<string, ColumnShape>>;
  readonly primaryKey: { readonly name: string; readonly columns: readonly string[] };
}

/** Renames a table and the functions of its triggers. */
export interface RenameTable extends TableChange<'renameTable'> {
  readonly to: string;
  readonly triggers: readonly string[];
}

/** Drops a table and its rows, and the functions of its triggers. */
export interface DropTable extends TableChange<'dropTable'> {
  readonly triggers: readonly string[];
}

/** Adds columns to a table. Existing rows get the default. */
export interface AddColumns extends TableChange<'addColumns'> {
  readonly columns: Readonly<Record<string, ColumnShape>>;
}

/** Renames a column. */
export interface RenameColumn extends ColumnChange<'renameColumn'> {
  readonly to: string;
}

/** Alters column types in place, which rewrites the table. */
export interface AlterTypes extends TableChange<'alterTypes'> {
  readonly columns: readonly RetypedColumn[];
}

/** A column whose type changes. */
export interface RetypedColumn extends Pick<ColumnShape, 'type' | 'collation'> {
  readonly name: string;
  /** SQL expression for the new value. */
  readonly using: string;
}

/** Drops columns and their values. */
export interface DropColumns extends TableChange<'dropColumns'> {
  readonly columns: readonly string[];
}

/** Changes whether a column can be null. */
export interface Nullability extends ColumnChange<'nullability'> {
  readonly nullable: boolean;
}

/** Sets or drops a column's default for new rows. */
export interface Default extends ColumnChange<'default'> {
  /** SQL expression, or null to drop the default. */
  readonly value: string | null;
}

/** Creates an index or a unique constraint. */
export interface CreateIndex extends PartChange<'createIndex'> {
  readonly index: IndexShape;
  /** Whether the existing rows are known to contain no duplicates, so that the migration need not search for them. */
  readonly distinct?: true;
}

/** Drops an index, or the constraint to which it belongs. */
export interface DropIndex extends PartChange<'dropIndex'> {
  readonly constraint?: true;
}

/** Renames an index, or the constraint to which it belongs. */
export interface RenameIndex extends Rename<'renameIndex'> {
  readonly constraint?: true;
}

/** Adds a foreign key. */
export interface AddForeignKey extends PartChange<'addForeignKey'> {
  readonly key: ForeignKeyShape;
}

/** Drops a foreign key. */
export type DropForeignKey = PartChange<'dropForeignKey'>;

/** Renames a foreign key. */
export type RenameForeignKey = Rename<'renameForeignKey'>;

/** Adds a check constraint. */
export interface AddConstraint extends PartChange<'addConstraint'> {
  readonly check: CheckShape;
}

/** Drops a check constraint. */
export type DropConstraint = PartChange<'dropConstraint'>;

/** Creates a trigger and its function. */
export interface CreateTrigger extends PartChange<'createTrigger'> {
  readonly trigger: TriggerShape;
}

/** Drops a trigger and its function. */
export type DropTrigger = PartChange<'dropTrigger'>;

/** Fails the migration if any record matches a condition. */
export interface Check extends TableChange<'check'> {
  /** The field's name, for example `leads.score`. */
  readonly name: string;
  /** Completes "leads.score … in 3 records". */
  readonly says: string;
  /** SQL condition that matches invalid records. */
  readonly where: string;
}

/** Sets a column in the rows that match a condition or, without a condition, in which it is null. */
export interface Backfill extends ColumnChange<'backfill'> {
  /** SQL expression for the new value. */
  readonly value: string;
  /** SQL condition. If absent, selects the rows in which the column is null. */
  readonly where?: string;
}

/** Updates the outdated stored rollups of a table's rows. */
export interface Recalculate extends TableChange<'recalculate'> {
  /** The tables with the records that the rollups combine. */
  readonly of: readonly string[];
  /** SQL expressions for the values of a row `t`, by column. */
  readonly values: Readonly<Record<string, string>>;
}

/** Replaces the old name of a renamed resource in a table's rows. */
export interface RenameValues extends ColumnChange<'renameValues'> {
  readonly from: string;
  readonly to: string;
  /** Whether the values are paths that start with the name, for example `leads/batch`. */
  readonly paths?: true;
}

/** A hand-written statement. It runs as written, even while older nodes are running. */
export interface Raw {
  readonly kind: 'raw';
  readonly sql: string;
  /** The table that the statement affects, if declared. */
  readonly table?: string;
  /** The statement's effects, if declared. */
  readonly effects?: Effects & { readonly says: string };
}

/**
 * Changes the types of a table's columns and everything that depends on them. On a table in use, a second
 * column with the new type is backfilled and indexed, then swapped with the first.
 */
export interface RetypeColumns extends TableChange<'retypeColumns'> {
  /** The changes to make in place if the table is empty, in order. */
  readonly changes: readonly SimpleChange[];
}

/** Returns the changes of one kind. */
export const ofKind = <K extends Change['kind']>(
  changes: readonly Change[],
  kind: K,
): readonly Extract<Change, { kind: K }>[] =>
  changes.filter((change): change is Extract<Change, { kind: K }> => change.kind === kind);

/** Returns a change with the new names of its table and columns if an earlier change renames them. */
export function afterRename<C extends Change>(change: C, earlier: Change): C {
  if (change.table !== earlier.table) return change;
  if (earlier.kind === 'renameTable') return { ...change, table: earlier.to };
  if (earlier.kind !== 'renameColumn') return change;
  const nameOf = (name: string) => (name === earlier.column ? earlier.to : name);
  const inSql = (sql: string) => sql.replaceAll(quote(earlier.column), quote(earlier.to));
  if (change.kind === 'dropColumns') return { ...change, columns: change.columns.map(nameOf) };
  if (!('column' in change)) return change;
  const renamed = { ...change, column: nameOf(change.column) };
  if (renamed.kind !== 'backfill') return renamed;
  const { value, where } = renamed;
  return { ...renamed, value: inSql(value), ...(where !== undefined && { where: inSql(where) }) };
}
