import { quote } from '../sql/index.ts';
import type { LiveNode } from './nodes.ts';
import type { OlderModels } from './older-models.ts';
import type { Retype } from './retype.ts';

/** A migration with older nodes running: what is applied immediately, and what waits until these nodes have stopped. */
export interface Expansion {
  readonly now: readonly (string | Retype)[];
  readonly contract: readonly string[];
}

const renameTable = /^alter table "(\w+)" rename to "(\w+)"/;
const renameColumn = /^alter table "(\w+)" rename column/;
const dropTable = /^drop table (?:if exists )?"(\w+)"/;
const dropColumns = /^alter table "(\w+)" (drop column .*?);?$/;
const dropOfTable =
  /^drop trigger (?:if exists )?"\w+" on "(\w+)"|^drop function (?:if exists )?"(\w+?)__version_fn"/;
const columnRule = /^alter table "(\w+)" alter column "(\w+)" (set not null|drop default);?$/;
const renamedRows = /^update "(\w+)" set "(\w+)" = '(\w+)' where "\2" = '(\w+)';?$/;

const renamedPaths = /^update "\w+" set .* where split_part\(/;

/** @param nodes that do not know the migration, at least one */
export function expand(
  statements: readonly (string | Retype)[],
  nodes: readonly LiveNode[],
  older: OlderModels,
): Expansion {
  const now: (string | Retype)[] = [];
  const contract: string[] = [];
  const texts = statements.filter((each) => typeof each === 'string');
  const dropped = new Set(texts.flatMap((sql) => dropTable.exec(sql)?.[1] ?? []));
  for (const sql of statements) {
    if (typeof sql !== 'string') {
      now.push(sql);
      continue;
    }
    const [, from = '', to] = renameTable.exec(sql) ?? [];
    const [, table = '', columns] = dropColumns.exec(sql) ?? [];
    const [, gone] = dropTable.exec(sql) ?? [];
    const [, ofTrigger, ofFunction] = dropOfTable.exec(sql) ?? [];
    const [, owner, column, rule] = columnRule.exec(sql) ?? [];
    const [, renamed] = renameColumn.exec(sql) ?? [];
    const [, keeping = '', naming = '', newName = '', oldName = ''] = renamedRows.exec(sql) ?? [];
    if (to !== undefined) {
      now.push(...older.show(from, nodes), sql);
      older.rename(from, to);
    } else if (renamed !== undefined) now.push(...older.show(renamed, nodes), sql);
    else if (columns !== undefined) {
      // Those who know it no more write no value.
      now.push(
        `alter table ${quote(table)} ${columns.replace(/drop column (?:if exists )?("\w+")/g, 'alter column $1 drop not null')}`,
      );
      contract.push(sql);
    } else if (gone !== undefined) {
      now.push(dropLinksOf(gone));
      contract.push(sql);
    } else if (dropped.has(ofTrigger ?? ofFunction ?? '')) contract.push(sql);
    else if (rule === 'drop default') contract.push(sql);
    else if (rule === 'set not null') {
      // Nodes that may still write null go first; what they wrote gets its value then.
      const filling = `update ${quote(owner ?? '')} set ${quote(column ?? '')} = `;
      contract.push(...texts.filter((each) => each.startsWith(filling)), sql);
    } else if (newName !== '') {
      const { begin, end } = bothNames(keeping, naming, oldName, newName, sql);
      now.push(...begin);
      contract.push(...end);
    } else if (renamedPaths.test(sql)) {
      now.push(sql);
      contract.push(sql);
    } else now.push(sql);
  }
  return { now, contract };
}

/** Those who know a table no more remove records that its rows refer to. */
const dropLinksOf = (table: string): string => `do $links$ declare link text; begin
  for link in select conname from pg_constraint where conrelid = to_regclass('${quote(table)}') and contype = 'f' loop
    execute format('alter table ${quote(table)} drop constraint %I', link);
  end loop;
end $links$`;

/**
 * What older nodes write about a resource under its old name is stored under the new one. Where the name is a part of the
 * key, for example with grants, rows exist under both names in the meantime.
 */
function bothNames(
  table: string,
  column: string,
  from: string,
  to: string,
  update: string,
): { readonly begin: readonly string[]; readonly end: readonly string[] } {
  const [own, name] = [quote(table), quote(column)];
  const routine = quote(`${table}_${to}_names_fn`);
  const trigger = quote(`${to}_names`);
  const copy = `insert into ${own} select (jsonb_populate_record(null::${own}, to_jsonb(r) || jsonb_build_object('${column}', %s))).* from (select %s) s(r) on conflict do nothing`;
  return {
    begin: [
      `create function ${routine}() returns trigger language plpgsql as $fn$ declare other text; begin
        if tg_when = 'BEFORE' then new.${name} := '${to}'; return new; end if;
        if tg_op = 'DELETE' then
          other := case old.${name} when '${from}' then '${to}' else '${from}' end;
          execute (select 'delete from ${own} where ' || string_agg(format('%I::text = $1 ->> %L', attname, attname), ' and ') from pg_index i join pg_attribute a on a.attrelid = i.indrelid and a.attnum = any(i.indkey) where i.indrelid = tg_relid and i.indisprimary)
            using to_jsonb(old) || jsonb_build_object('${column}', other);
        else
          other := case new.${name} when '${from}' then '${to}' else '${from}' end;
          ${copy.replace('%s', 'other').replace('%s', 'new')};
        end if;
        return null;
      end $fn$`,
      `do $names$ begin
        if exists (select from pg_index i join pg_attribute a on a.attrelid = i.indrelid and a.attnum = any(i.indkey) where i.indrelid = '${own}'::regclass and i.indisprimary and a.attname = '${column}') then
          ${copy.replace('%s', `'${to}'::text`).replace('select %s', `select o from ${own} o where o.${name} = '${from}'`)};
          create trigger ${trigger} after insert on ${own} for each row when (new.${name} in ('${from}', '${to}')) execute function ${routine}();
          create trigger ${quote(`${to}_names_gone`)} after delete on ${own} for each row when (old.${name} in ('${from}', '${to}')) execute function ${routine}();
        else
          ${update.replace(/;$/, '')};
          create trigger ${trigger} before insert on ${own} for each row when (new.${name} = '${from}') execute function ${routine}();
        end if;
      end $names$`,
    ],
    end: [
      `drop function ${routine}() cascade`,
      `do $names$ begin ${update.replace(/;$/, '')}; exception when unique_violation then
        ${copy.replace('%s', `'${to}'::text`).replace('select %s', `select o from ${own} o where o.${name} = '${from}'`)};
        delete from ${own} where ${name} = '${from}';
      end $names$`,
    ],
  };
}
