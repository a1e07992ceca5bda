import type { TableShape, TableShapes } from '../../database/index.ts';
import type { LiveNode } from '../nodes.ts';
import type { OlderModels } from '../older-models.ts';
import type { DeferredStep, StoredColumn } from '../steps.ts';
import type { Change } from './change.ts';
import type { Effects, LockMode } from './effects.ts';
import type { Rules } from './rules.ts';

/** A form of a change that does not block reads from and writes to a table with rows. */
export interface OnlineForm {
  /**
   * Query that returns a row if the change would fail. In this case, the change runs in its usual form so
   * that the migration is rolled back.
   */
  readonly obstacle?: string;
  /** Statements to run in the migration's transaction. */
  readonly now: readonly string[];
  /** Steps to run after the transaction. */
  readonly later: readonly DeferredStep[];
  /** Lock mode of the statements. Default: the lock mode of {@link Kind.risk}. */
  readonly lock?: LockMode;
  /** The effect as a verb phrase. */
  readonly says: string;
}

/** The parts of a change that is applied while nodes with the previous model are running. */
export interface Expansion {
  /** Changes that are safe for these nodes. */
  readonly now: readonly Change[];
  /** Changes to apply after these nodes have stopped. */
  readonly contract: readonly Change[];
}

/** The nodes with the previous model. */
export interface OlderNodes {
  readonly nodes: readonly LiveNode[];
  readonly models: OlderModels;
  /** All changes of the migration. */
  readonly changes: readonly Change[];
}

/** A table or column that is dropped together with its values. */
export interface DroppedValues {
  readonly table: string;
  /** Name of the column, or undefined if the whole table is dropped. */
  readonly column: string | undefined;
}

/** A kind of change to the tables. An absent property means that the feature is not supported. */
export interface Kind<C> {
  /** The rules for the change's properties in a migration file. */
  readonly rules: Rules<Omit<C, 'kind'>>;
  /** Returns the tables after the change. */
  readonly apply: (tables: TableShapes, change: C) => TableShapes;
  /** Returns the statements that apply the change in the migration's transaction. */
  readonly sql: (change: C) => readonly string[];
  readonly risk: (change: C) => Effects;
  /** Returns the effect as a verb phrase. */
  readonly describe: (change: C) => string;
  /** Returns the title to show in plans. Default: the statement. */
  readonly title?: (change: C) => string;
  readonly drops?: (change: C) => readonly DroppedValues[];
  /**
   * Returns the online form, or undefined if the change does not need one.
   * @param columns the table's columns in the database
   */
  readonly online?: (change: C, columns: readonly StoredColumn[]) => OnlineForm | undefined;
  /** Splits the change into parts to apply before and after older nodes stop. Default: everything before. */
  readonly compatibility?: (change: C, older: OlderNodes) => Expansion;
}

export const restartNote = 'nodes with the old definitions use the old name until they restart';
export const contractNote = 'runs after all nodes with the old definitions have stopped';
export const validateNote =
  'adds a constraint under this lock, and then reads every row after the rest of the migration, without blocking reads or writes on the table';

/** Returns a copy of the tables with one table changed. */
export function withTable(
  tables: TableShapes,
  name: string,
  change: (table: TableShape) => Partial<TableShape>,
): TableShapes {
  const table = tables[name];
  return table === undefined ? tables : { ...tables, [name]: { ...table, ...change(table) } };
}

/** Returns a copy of an object without the given entries. */
export const without = <T>(
  record: Readonly<Record<string, T>>,
  ...names: readonly string[]
): Readonly<Record<string, T>> =>
  Object.fromEntries(Object.entries(record).filter(([name]) => !names.includes(name)));
