import { addColumns } from './add-columns.ts';
import { alterTypes } from './alter-types.ts';
import { backfill } from './backfill.ts';
import type { SimpleChange } from './change.ts';
import { check } from './check.ts';
import { addConstraint, dropConstraint } from './constraints.ts';
import { createTable } from './create-table.ts';
import { defaultKind } from './default.ts';
import { dropColumns } from './drop-columns.ts';
import { dropTable } from './drop-table.ts';
import { addForeignKey, dropForeignKey, renameForeignKey } from './foreign-keys.ts';
import { createIndex, dropIndex, renameIndex } from './indexes.ts';
import type { Kind } from './kind.ts';
import { nullability } from './nullability.ts';
import { rawKind } from './raw.ts';
import { recalculate } from './recalculate.ts';
import { renameColumn } from './rename-column.ts';
import { renameTable } from './rename-table.ts';
import { renameValues } from './rename-values.ts';
import { createTrigger, dropTrigger } from './triggers.ts';

/** The kinds of {@link SimpleChange}. */
export const simpleKinds: {
  readonly [K in SimpleChange['kind']]: Kind<Extract<SimpleChange, { kind: K }>>;
} = {
  createTable,
  renameTable,
  dropTable,
  addColumns,
  renameColumn,
  alterTypes,
  dropColumns,
  nullability,
  default: defaultKind,
  createIndex,
  renameIndex,
  dropIndex,
  addForeignKey,
  renameForeignKey,
  dropForeignKey,
  addConstraint,
  dropConstraint,
  createTrigger,
  dropTrigger,
  check,
  backfill,
  recalculate,
  renameValues,
  raw: rawKind,
};
