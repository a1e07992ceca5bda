// Changes: the kinds of table changes, each with its statements, risk and online form.

import type { TableShapes } from '../../database/index.ts';
import type { Change } from './change.ts';
import type { Kind } from './kind.ts';
import { retypeColumns } from './retype-columns.ts';
import { changeAmong, listOf } from './rules.ts';
import { simpleKinds } from './simple.ts';

type ChangeOf<K extends Change['kind']> = Extract<Change, { kind: K }>;

/** All kinds of changes, keyed by name. */
const kinds: { readonly [K in Change['kind']]: Kind<ChangeOf<K>> } = { ...simpleKinds, retypeColumns };

const changeList = listOf(changeAmong(kinds));

/** Describes an error in a migration file's list of changes, or returns undefined if the list is valid. */
export const problemIn = (changes: unknown): string | undefined => changeList(changes, 'changes');

/** Returns the kind of a change. */
export const kindOf = <K extends Change['kind']>(change: ChangeOf<K>): Kind<ChangeOf<K>> =>
  kinds[change.kind as K];

/** Returns the SQL statements for a list of changes. */
export const sqlOf = (changes: readonly Change[]): readonly string[] =>
  changes.flatMap((change) => kindOf(change).sql(change));

/** Returns the tables after applying changes. */
export const applyChanges = (tables: TableShapes, changes: readonly Change[]): TableShapes =>
  changes.reduce((before, change) => kindOf(change).apply(before, change), tables);
