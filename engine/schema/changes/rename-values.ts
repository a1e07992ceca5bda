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
    change.paths === true ? { now: [change], contract: [raw(mergeSql(change))] } : syncNames(change),
};

/** Returns SQL expressions for the new value of a row's column and for the resource's name in it. */
function expressions({ column, from, to, paths }: RenameValues): { value: string; name: string } {
  return paths
    ? {
        value: `${literal(to)} || substr(${quote(column)}, ${from.length + 1})`,
        name: `split_part(${quote(column)}, '/', 1)`,
      }
    : { value: literal(to), name: quote(column) };
}

function updateSql(change: RenameValues): string {
  const { value, name } = expressions(change);
  return `update ${quote(change.table)} set ${quote(change.column)} = ${value} where ${name} = ${literal(change.from)}`;
}

/** Returns SQL that copies rows with another value in a column, unless such rows exist. @param rows FROM clause with rows `r` */
const copySql = ({ table, column }: RenameValues, value: string, rows: string): string =>
  `insert into ${quote(table)} select (jsonb_populate_record(null::${quote(table)}, to_jsonb(r) || jsonb_build_object('${column}', ${value}))).* from ${rows} on conflict do nothing`;

/** Returns SQL that replaces the old name, and drops the rows that exist under the new name, too. */
function mergeSql(change: RenameValues): string {
  const { value, name } = expressions(change);
  const table = quote(change.table);
  const condition = `${name} = ${literal(change.from)}`;
  return `do $names$ begin ${updateSql(change)}; exception when unique_violation then
        ${copySql(change, `(${value})::text`, `${table} r where ${condition}`)};
        delete from ${table} where ${condition};
      end $names$`;
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
  const copy = (newName: string, rows: string) => copySql(change, newName, rows);
  const copyAll = copy(`'${to}'::text`, `${tableName} r where r.${name} = '${from}'`);
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
          ${copy('other', '(select new) s(r)')};
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
    contract: [raw(`drop function ${routine}() cascade`), raw(mergeSql(change))],
  };
}
