import { quote } from '../sql/index.ts';
import type { LiveNode } from './nodes.ts';
import type { OlderModels } from './older-models.ts';
import type { Retype } from './retype.ts';

/**
 * The statements that a migration runs while older nodes are running. `contract` runs after these nodes have
 * stopped.
 */
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
const columnChangePattern = /^alter table "(\w+)" alter column "(\w+)" (set not null|drop default);?$/;
const renamedRowsPattern = /^update "(\w+)" set "(\w+)" = '(\w+)' where "\2" = '(\w+)';?$/;

const renamedPathsPattern = /^update "\w+" set .* where split_part\(/;

/**
 * Splits a migration into statements that are safe for older nodes and statements that must wait until these
 * have stopped.
 * @param nodes the running nodes that do not know the migration, at least one
 */
export function expand(
  statements: readonly (string | Retype)[],
  nodes: readonly LiveNode[],
  olderModels: OlderModels,
): Expansion {
  const immediate: (string | Retype)[] = [];
  const contract: string[] = [];
  const texts = statements.filter((sql) => typeof sql === 'string');
  const droppedTables = new Set(texts.flatMap((sql) => dropTable.exec(sql)?.[1] ?? []));
  for (const sql of statements) {
    if (typeof sql !== 'string') {
      immediate.push(sql);
      continue;
    }
    const [, from = '', to] = renameTable.exec(sql) ?? [];
    const [, table = '', drops] = dropColumns.exec(sql) ?? [];
    const [, droppedTable] = dropTable.exec(sql) ?? [];
    const [, ofTrigger, ofFunction] = dropOfTable.exec(sql) ?? [];
    const [, ruleTable, column, columnChange] = columnChangePattern.exec(sql) ?? [];
    const [, alteredTable] = renameColumn.exec(sql) ?? [];
    const [, updatedTable = '', nameColumn = '', newName = '', oldName = ''] =
      renamedRowsPattern.exec(sql) ?? [];
    if (to !== undefined) {
      immediate.push(...olderModels.show(from, nodes), sql);
      olderModels.rename(from, to);
    } else if (alteredTable !== undefined) immediate.push(...olderModels.show(alteredTable, nodes), sql);
    else if (drops !== undefined) {
      // Updated nodes no longer write this column, so it must be nullable.
      immediate.push(
        `alter table ${quote(table)} ${drops.replace(/drop column (?:if exists )?("\w+")/g, 'alter column $1 drop not null')}`,
      );
      contract.push(sql);
    } else if (droppedTable !== undefined) {
      immediate.push(dropLinksOf(droppedTable));
      contract.push(sql);
    } else if (droppedTables.has(ofTrigger ?? ofFunction ?? '')) contract.push(sql);
    else if (columnChange === 'drop default') contract.push(sql);
    else if (columnChange === 'set not null') {
      // Older nodes can still write null. Fill these values again after the nodes have stopped.
      const backfill = `update ${quote(ruleTable ?? '')} set ${quote(column ?? '')} = `;
      contract.push(...texts.filter((sql) => sql.startsWith(backfill)), sql);
    } else if (newName !== '') {
      const { begin, end } = syncNames(updatedTable, nameColumn, oldName, newName, sql);
      immediate.push(...begin);
      contract.push(...end);
    } else if (renamedPathsPattern.test(sql)) {
      immediate.push(sql);
      contract.push(sql);
    } else immediate.push(sql);
  }
  return { now: immediate, contract };
}

/** Returns SQL that drops a table's foreign keys, so that updated nodes can delete records that its rows refer to. */
const dropLinksOf = (table: string): string => `do $links$ declare link text; begin
  for link in select conname from pg_constraint where conrelid = to_regclass('${quote(table)}') and contype = 'f' loop
    execute format('alter table ${quote(table)} drop constraint %I', link);
  end loop;
end $links$`;

/**
 * Returns statements that keep rows about a renamed resource visible to older and updated nodes. Rows that older nodes
 * insert under the old name are stored under the new one. If the name is part of the primary key, as with grants, each
 * row exists under both names until the contract.
 */
function syncNames(
  table: string,
  column: string,
  from: string,
  to: string,
  update: string,
): { readonly begin: readonly string[]; readonly end: readonly string[] } {
  const [tableName, name] = [quote(table), quote(column)];
  const routine = quote(`${table}_${to}_names_fn`);
  const trigger = quote(`${to}_names`);
  const copy = `insert into ${tableName} select (jsonb_populate_record(null::${tableName}, to_jsonb(r) || jsonb_build_object('${column}', %s))).* from (select %s) s(r) on conflict do nothing`;
  return {
    begin: [
      `create function ${routine}() returns trigger language plpgsql as $fn$ declare other text; begin
        if tg_when = 'BEFORE' then new.${name} := '${to}'; return new; end if;
        if tg_op = 'DELETE' then
          other := case old.${name} when '${from}' then '${to}' else '${from}' end;
          execute (select 'delete from ${tableName} where ' || string_agg(format('%I::text = $1 ->> %L', attname, attname), ' and ') from pg_index i join pg_attribute a on a.attrelid = i.indrelid and a.attnum = any(i.indkey) where i.indrelid = tg_relid and i.indisprimary)
            using to_jsonb(old) || jsonb_build_object('${column}', other);
        else
          other := case new.${name} when '${from}' then '${to}' else '${from}' end;
          ${copy.replace('%s', 'other').replace('%s', 'new')};
        end if;
        return null;
      end $fn$`,
      `do $names$ begin
        if exists (select from pg_index i join pg_attribute a on a.attrelid = i.indrelid and a.attnum = any(i.indkey) where i.indrelid = '${tableName}'::regclass and i.indisprimary and a.attname = '${column}') then
          ${copy.replace('%s', `'${to}'::text`).replace('select %s', `select o from ${tableName} o where o.${name} = '${from}'`)};
          create trigger ${trigger} after insert on ${tableName} for each row when (new.${name} in ('${from}', '${to}')) execute function ${routine}();
          create trigger ${quote(`${to}_names_gone`)} after delete on ${tableName} for each row when (old.${name} in ('${from}', '${to}')) execute function ${routine}();
        else
          ${update.replace(/;$/, '')};
          create trigger ${trigger} before insert on ${tableName} for each row when (new.${name} = '${from}') execute function ${routine}();
        end if;
      end $names$`,
    ],
    end: [
      `drop function ${routine}() cascade`,
      `do $names$ begin ${update.replace(/;$/, '')}; exception when unique_violation then
        ${copy.replace('%s', `'${to}'::text`).replace('select %s', `select o from ${tableName} o where o.${name} = '${from}'`)};
        delete from ${tableName} where ${name} = '${from}';
      end $names$`,
    ],
  };
}
