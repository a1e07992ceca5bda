import { recalculateSql } from '../../records/index.ts';
import type { Recalculate } from './change.ts';
import { changeEffects } from './effects.ts';
import type { Kind } from './kind.ts';
import { listOf, mapOf, text } from './rules.ts';

export const recalculate: Kind<Recalculate> = {
  rules: { table: text, of: listOf(text), values: mapOf(text) },
  apply: (tables) => tables,
  sql: ({ table, values }) => [`${recalculateSql({ resource: table, values })};`],
  risk: () => changeEffects('ROW EXCLUSIVE', 'writes', 'blocking'),
  describe: () => 'updates the records whose values differ; concurrent writes to these records wait',
  title: ({ table, values }) =>
    `recalculate ${Object.keys(values)
      .map((column) => `${table}.${column}`)
      .join(', ')}`,
  // A single UPDATE would lock the rows until the migration commits.
  online: ({ table, of, values }) => ({
    now: [],
    later: [{ fill: table, rollups: { of, values } }],
    says: 'recalculates the values in batches after the rest of the migration; until then, existing records have the previous values; concurrent writes wait only for their batch',
  }),
};
