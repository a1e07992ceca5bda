import { identifier, literal, quote } from '../../sql/index.ts';
import type { RenameValues } from './change.ts';
import { changeEffects } from './effects.ts';
import type { Expansion, Kind } from './kind.ts';
import { raw } from './raw.ts';
import { set, text } from './rules.ts';

export const renameValues: Kind<RenameValues> = {
  rules: { table: text, column: text, from: text, to: text, paths: set },
  apply: (tables) => tables,
  sql: (change) => [`${updateSql(change)};`],
  risk: () => changeEffects('ROW EXCLUSIVE', 'writes', 'blocking'),
  describe: () => 'updates the rows that match its condition; concurrent writes to these rows wait',
  compatibility: (change) =>
    change.paths === true ? { now: [change], contract: [change] } : syncNames(change),
};

function updateSql({ table, column, from, to, paths }: RenameValues): string {
  const name = quote(column);
  const [value, current] = paths
    ? [`${literal(to)} || substr(${name}, ${from.length + 1})`, `split_part(${name}, '/', 1)`]
    : [literal(to), name];
  return `update ${quote(table)} set ${name} = ${value} where ${current} = ${literal(from)}`;
}

/**
 * Returns changes that keep rows about a renamed resource visible to both older and updated nodes. Rows that
 * older nodes insert under the old name are stored under the new name. If the name is part of the primary
 * key, as for grants, each row exists under both names until the contract.
 */
function syncNames(change: RenameValues): Expansion {
  const { table, column, from, to } = change;
  const update = updateSql(change);
  const [tableName, name] = [quote(table), quote(column)];
  const routine = quote(identifier(`${table}_${to}_names_fn`));
  const trigger = quote(identifier(`${to}_names`));
  const copy = (newName: string, row: string) =>
    `insert into ${tableName} select (jsonb_populate_record(null::${tableName}, to_jsonb(r) || jsonb_build_object('${column}', ${newName}))).* from (select ${row}) s(r) on conflict do nothing`;
  const copyAll = copy(`'${to}'::text`, `o from ${tableName} o where o.${name} = '${from}'`);
  return {
    now: [
      raw(`create function ${routine}() returns trigger language plpgsql as $fn$ declare other text; begin
        if tg_when = 'BEFORE' then new.${name} := '${to}'; return new; end if;
        if tg_op = 'DELETE' then
          other := case old.${name} when '${from}' then '${to}' else '${from}' end;
          execute (select 'delete from ${tableName} where ' || string_agg(format('%I::text = $1 ->> %L', attname, attname), ' and ') from pg_index i join pg_attribute a on a.attrelid = i.indrelid and a.attnum = any(i.indkey) where i.indrelid = tg_relid and i.indisprimary)
            using to_jsonb(old) || jsonb_build_object('${column}', other);
        else
          other := case new.${name} when '${from}' then '${to}' else '${from}' end;
          ${copy('other', 'new')};
        end if;
        return null;
      end $fn$`),
      raw(`do $names$ begin
        if exists (select from pg_index i join pg_attribute a on a.attrelid = i.indrelid and a.attnum = any(i.indkey) where i.indrelid = '${tableName}'::regclass and i.indisprimary and a.attname = '${column}') then
          ${copyAll};
          create trigger ${trigger} after insert on ${tableName} for each row when (new.${name} in ('${from}', '${to}')) execute function ${routine}();
          create trigger ${quote(identifier(`${to}_names_gone`))} after delete on ${tableName} for each row when (old.${name} in ('${from}', '${to}')) execute function ${routine}();
        else
          ${update};
          create trigger ${trigger} before insert on ${tableName} for each row when (new.${name} = '${from}') execute function ${routine}();
        end if;
      end $names$`),
    ],
    contract: [
      raw(`drop function ${routine}() cascade`),
      raw(`do $names$ begin ${update}; exception when unique_violation then
        ${copyAll};
        delete from ${tableName} where ${name} = '${from}';
      end $names$`),
    ],
  };
}
