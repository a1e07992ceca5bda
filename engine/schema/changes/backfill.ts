import { quote } from '../../sql/index.ts';
import type { Backfill } from './change.ts';
import { changeEffects } from './effects.ts';
import type { Kind } from './kind.ts';
import { optional, text } from './rules.ts';

export const backfill: Kind<Backfill> = {
  rules: { table: text, column: text, value: text, where: optional(text) },
  apply: (tables) => tables,
  sql: ({ table, column, value, where = `${quote(column)} is null` }) => [
    `update ${quote(table)} set ${quote(column)} = ${value} where ${where};`,
  ],
  risk: () => changeEffects('ROW EXCLUSIVE', 'writes', 'blocking'),
  describe: () => 'updates the rows that match its condition; concurrent writes to these rows wait',
  // A single UPDATE would lock the rows until the migration commits, so null values are filled in batches later.
  online: ({ table, column, value, where }) =>
    where === undefined
      ? {
          now: [],
          later: [{ fill: table, missing: { column, value } }],
          says: 'fills missing values in batches after the rest of the migration; concurrent writes wait only for their batch',
        }
      : undefined,
};
