import { quote, triggerFunction } from '../../sql/index.ts';
import { tablesWithNewName } from '../stored-model.ts';
import type { RenameTable } from './change.ts';
import { changeEffects } from './effects.ts';
import { type Kind, restartNote } from './kind.ts';
import { raw } from './raw.ts';
import { listOf, text } from './rules.ts';

export const renameTable: Kind<RenameTable> = {
  rules: { table: text, to: text, triggers: listOf(text) },
  apply: (tables, { table, to }) => tablesWithNewName(tables, table, to),
  sql: ({ table, to, triggers }) => [
    `alter table ${quote(table)} rename to ${quote(to)};`,
    ...triggers.map(
      (trigger) =>
        `alter function ${triggerFunction(table, trigger)}() rename to ${triggerFunction(to, trigger)};`,
    ),
  ],
  risk: () => changeEffects('ACCESS EXCLUSIVE', 'nothing', 'needs a restart'),
  describe: () => `renames the table; ${restartNote}`,
  compatibility: (change, { nodes, models }) => {
    const views = models.show(change.table, nodes).map(raw);
    models.rename(change.table, change.to);
    return { now: [...views, change], contract: [] };
  },
};
