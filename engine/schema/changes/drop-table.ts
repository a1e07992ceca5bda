import { quote } from '../../sql/index.ts';
import type { DropTable } from './change.ts';
import { changeEffects } from './effects.ts';
import { contractNote, type Kind, without } from './kind.ts';
import { raw } from './raw.ts';
import { listOf, text } from './rules.ts';
import { dropTriggerSql } from './triggers.ts';

export const dropTable: Kind<DropTable> = {
  rules: { table: text, triggers: listOf(text) },
  apply: (tables, { table }) => without(tables, table),
  sql: ({ table, triggers }) => [
    ...triggers.flatMap((trigger) => dropTriggerSql(table, trigger)),
    `drop table if exists ${quote(table)} cascade;`,
  ],
  risk: () => changeEffects('ACCESS EXCLUSIVE', 'nothing', 'destructive', 'needs a restart'),
  describe: () => `drops the table and all its rows; ${contractNote}`,
  drops: ({ table }) => [{ table, column: undefined }],
  compatibility: (change) => ({ now: [raw(dropLinksSql(change.table))], contract: [change] }),
};

/** Returns SQL that drops a table's foreign keys, so that updated nodes can delete referenced records. */
const dropLinksSql = (table: string): string => `do $links$ declare link text; begin
  for link in select conname from pg_constraint where conrelid = to_regclass('${quote(table)}') and contype = 'f' loop
    execute format('alter table ${quote(table)} drop constraint %I', link);
  end loop;
end $links$`;
