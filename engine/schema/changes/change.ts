import type { ColumnShape, ForeignKeyShape, TriggerShape } from '../../database/index.ts';
import type { IndexShape } from '../../sql/index.ts';
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
  | CreateTrigger
  | DropTrigger
  | Check
  | Backfill
  | RenameValues
  | Raw;

/** Creates a table with its primary key. */
export interface CreateTable {
  readonly kind: 'createTable';
  readonly table: string;
  readonly columns: Readonly<Record<string, ColumnShape>>;
  readonly primaryKey: { readonly name: string; readonly columns: readonly string[] };
}

/** Renames a table and the functions of its triggers. */
export interface RenameTable {
  readonly kind: 'renameTable';
  readonly table: string;
  readonly to: string;
  readonly triggers: readonly string[];
}

/** Drops a table with its rows, and the functions of its triggers. */
export interface DropTable {
  readonly kind: 'dropTable';
  readonly table: string;
  readonly triggers: readonly string[];
}

/** Adds columns to a table. Existing rows get the default. */
export interface AddColumns {
  readonly kind: 'addColumns';
  readonly table: string;
  readonly columns: Readonly<Record<string, ColumnShape>>;
}

/** Renames a column. */
export interface RenameColumn {
  readonly kind: 'renameColumn';
  readonly table: string;
  readonly column: string;
  readonly to: string;
}

/** Alters the types of columns in place, which rewrites the table. */
export interface AlterTypes {
  readonly kind: 'alterTypes';
  readonly table: string;
  readonly columns: readonly RetypedColumn[];
}

/** A column whose type changes. */
export interface RetypedColumn extends Pick<ColumnShape, 'type' | 'collation'> {
  readonly name: string;
  /** SQL expression for the new value. */
  readonly using: string;
}

/** Drops columns with their values. */
export interface DropColumns {
  readonly kind: 'dropColumns';
  readonly table: string;
  readonly columns: readonly string[];
}

/** Changes whether a column can be null. */
export interface Nullability {
  readonly kind: 'nullability';
  readonly table: string;
  readonly column: string;
  readonly nullable: boolean;
}

/** Sets or drops a column's default for new rows. */
export interface Default {
  readonly kind: 'default';
  readonly table: string;
  readonly column: string;
  /** SQL expression; null to drop the default. */
  readonly value: string | null;
}

/** Creates an index or a unique constraint. */
export interface CreateIndex {
  readonly kind: 'createIndex';
  readonly table: string;
  readonly name: string;
  readonly index: IndexShape;
}

/** Drops an index, or the constraint it belongs to. */
export interface DropIndex {
  readonly kind: 'dropIndex';
  readonly table: string;
  readonly name: string;
  readonly constraint?: true;
}

/** Renames an index, or the constraint it belongs to. */
export interface RenameIndex {
  readonly kind: 'renameIndex';
  readonly table: string;
  readonly name: string;
  readonly to: string;
  readonly constraint?: true;
}

/** Adds a foreign key. */
export interface AddForeignKey {
  readonly kind: 'addForeignKey';
  readonly table: string;
  readonly name: string;
  readonly key: ForeignKeyShape;
}

/** Drops a foreign key. */
export interface DropForeignKey {
  readonly kind: 'dropForeignKey';
  readonly table: string;
  readonly name: string;
}

/** Renames a foreign key. */
export interface RenameForeignKey {
  readonly kind: 'renameForeignKey';
  readonly table: string;
  readonly name: string;
  readonly to: string;
}

/** Creates a row-level trigger and its function. */
export interface CreateTrigger {
  readonly kind: 'createTrigger';
  readonly table: string;
  readonly name: string;
  readonly trigger: TriggerShape;
}

/** Drops a trigger and its function. */
export interface DropTrigger {
  readonly kind: 'dropTrigger';
  readonly table: string;
  readonly name: string;
}

/** Fails the migration if any record matches a condition. */
export interface Check {
  readonly kind: 'check';
  readonly table: string;
  /** The field's name, for example `leads.score`. */
  readonly name: string;
  /** Completes "leads.score … in 3 records". */
  readonly says: string;
  /** SQL condition. */
  readonly where: string;
}

/** Sets a column in the rows that match a condition, or in which it is null. */
export interface Backfill {
  readonly kind: 'backfill';
  readonly table: string;
  readonly column: string;
  /** SQL expression. */
  readonly value: string;
  /** SQL condition; absent if the column must be null. */
  readonly where?: string;
}

/** Replaces a renamed resource's name in the rows of a table. */
export interface RenameValues {
  readonly kind: 'renameValues';
  readonly table: string;
  readonly column: string;
  readonly from: string;
  readonly to: string;
  /** Whether the values are paths that start with the name, for example `leads/batch`. */
  readonly paths?: true;
}

/** A hand-written statement. It runs as written, while older nodes are running as well. */
export interface Raw {
  readonly kind: 'raw';
  readonly sql: string;
  /** The table it affects, if declared. */
  readonly table?: string;
  /** Its effects, if declared. */
  readonly effects?: Effects & { readonly says: string };
}

/**
 * Changes the types of a table's columns, with everything that depends on them. On a table in use, a second column with
 * the new type is backfilled and indexed, and then swapped with the first one.
 */
export interface RetypeColumns {
  readonly kind: 'retypeColumns';
  readonly table: string;
  /** The changes that are made in place if the table is empty, in order. */
  readonly changes: readonly SimpleChange[];
}

/** Returns the changes of one kind. */
export const ofKind = <K extends Change['kind']>(
  changes: readonly Change[],
  kind: K,
): readonly Extract<Change, { kind: K }>[] =>
  changes.filter((change): change is Extract<Change, { kind: K }> => change.kind === kind);
