import { extraColumns, firstColumn } from '../fields/index.ts';
import { identifier, quote } from '../sql/index.ts';
import type { Change } from './changes/change.ts';
import { check } from './changes/check.ts';
import type { LiveNode } from './nodes.ts';
import type { OlderModels } from './older-models.ts';
import { type ColumnSwap, type StoredColumn, unfit } from './steps.ts';

/** Returns the name of the column that contains the new values until the swap. */
export const nextName = (name: string): string => identifier(`_${name}_next`);
const beforeName = (name: string): string => identifier(`_${name}_before`);
const beforeOf = (name: string): string => quote(beforeName(name));
/** Returns the quoted name of the function for the trigger that keeps the columns in sync. */
export const syncFunction = (table: string): string => quote(identifier(`${table}__types_fn`));
/**
 * Quoted name of the trigger that keeps the columns in sync. It sorts after the version trigger's name,
 * because this trigger has to revert the version increment during a backfill.
 */
export const syncTrigger = '"_zz_types"';
/** Returns the quoted name of the constraint that replaces NOT NULL until the swap. */
export const filledCheck = (table: string, name: string): string =>
  quote(identifier(`${table}_${name}_filled`));

/**
 * Returns the statements for a {@link ColumnSwap}, which run in one transaction.
 * @param outdatedNodes nodes that use the previous columns, which are kept and exposed to them by views
 */
export function swapStatements(
  { table, columns, gone, drops, renames, all }: ColumnSwap,
  outdatedNodes: readonly LiveNode[],
  olderModels: OlderModels,
): { readonly immediate: readonly string[]; readonly contract: readonly Change[] } {
  const tableName = quote(table);
  const names = columns.map(({ name }) => name).join(', ');
  const oldColumns = [...columns.flatMap(({ was }) => was ?? []), ...gone];
  const alter = (parts: readonly string[]) => `alter table ${tableName} ${parts.join(', ')}`;
  const keepsOld = outdatedNodes.length > 0;
  const immediate = [
    `lock table ${tableName} in access exclusive mode`,
    ...check.sql({
      kind: 'check',
      table,
      name: `${table}.${names}`,
      says: 'does not fit its new type',
      where: unfit,
    }),
    ...(keepsOld ? olderModels.show(table, outdatedNodes) : []),
    `drop function ${syncFunction(table)}() cascade`,
    ...drops,
    ...(keepsOld
      ? oldColumns.flatMap(({ name }) => [
          alter([`alter column ${quote(name)} drop not null`, `alter column ${quote(name)} drop default`]),
          alter([`rename column ${quote(name)} to ${beforeOf(name)}`]),
        ])
      : [alter(oldColumns.map(({ name }) => `drop column ${quote(name)}`))]),
    ...columns.map(({ name }) => alter([`rename column ${quote(nextName(name))} to ${quote(name)}`])),
    ...renames,
    ...columns.flatMap(({ name, default: value, isFilled }) => [
      ...(value === null ? [] : [alter([`alter column ${quote(name)} set default ${value}`])]),
      ...(isFilled
        ? [
            alter([`alter column ${quote(name)} set not null`]),
            alter([`drop constraint ${filledCheck(table, name)}`]),
          ]
        : []),
    ]),
    alter([`drop column ${unfit}`]),
  ];
  if (!keepsOld) return { immediate, contract: [] };
  return {
    immediate: [...immediate, ...syncTriggers(table, columns, oldColumns, all)],
    contract: [
      { kind: 'raw', table, sql: `drop function ${syncFunction(table)}() cascade` },
      { kind: 'dropColumns', table, columns: oldColumns.map(({ name }) => beforeName(name)) },
    ],
  };
}

/** Returns statements that create a trigger to keep the columns used by older and newer nodes in sync. */
function syncTriggers(
  table: string,
  columns: ColumnSwap['columns'],
  oldColumns: readonly StoredColumn[],
  columnNames: readonly string[],
): string[] {
  const tableName = quote(table);
  const isOld = (name: string) => oldColumns.some((column) => column.name === name);
  const row = columnNames
    .filter((name) => name !== '_unfit')
    .map((name) => `new.${isOld(name) ? beforeOf(name) : quote(name)} as ${quote(name)}`);
  const nullRow = columnNames.map((name) => {
    const column = oldColumns.find((column) => column.name === name);
    return `${column === undefined ? `new.${quote(name)}` : `null::${column.type}`} as ${quote(name)}`;
  });
  const anyOf = (names: readonly string[], predicate: (name: string) => string) =>
    names.map(predicate).join(' or ');
  const hasChanged = (name: string) => `new.${name} is distinct from old.${name}`;
  const before = oldColumns.map(({ name }) => beforeOf(name));
  /** Returns a column's field. Fields are synced separately, because type conversions can lose values. */
  const fieldOf = (name: string): string =>
    firstColumn(
      name,
      columns.map((column) => column.name),
    );
  const fields = [...new Set(columns.map(({ name }) => fieldOf(name)))].map((field) => {
    const current = columns.filter(({ name }) => fieldOf(name) === field);
    const previous = oldColumns.filter(({ name }) => fieldOf(name) === field);
    const values = current.map(({ using }) => `(${using})`).join(', ');
    const targets = current.map(({ name }) => `new.${quote(name)}`).join(', ');
    const assignments = previous.map(({ name, type, default: value }) => {
      const fallback = value ?? 'null';
      return `begin new.${beforeOf(name)} := coalesce(${previousValue(columns, name, type)}, ${fallback}); exception when others then new.${beforeOf(name)} := ${fallback}; end;`;
    });
    return `if tg_op = 'UPDATE' then
        is_old := ${anyOf(
          previous.map(({ name }) => beforeOf(name)),
          hasChanged,
        )};
        is_new := not is_old and (${anyOf(
          current.map(({ name }) => quote(name)),
          hasChanged,
        )});
      end if;
      if is_old then
        begin
          select ${values} into ${targets} from (select ${row.join(', ')}) ${tableName};
        exception when others then
          select ${values} into ${targets} from (select ${nullRow.join(', ')}) ${tableName};
        end;
      elsif is_new then
        ${assignments.join('\n        ')}
      end if;`;
  });
  return [
    `create function ${syncFunction(table)}() returns trigger language plpgsql as $types$ declare is_old boolean; is_new boolean; begin
      is_old := ${anyOf(before, (name) => `new.${name} is not null`)};
      is_new := not is_old;
      ${fields.join('\n      ')}
      return new;
    end $types$`,
    `create trigger ${syncTrigger} before insert or update on ${tableName} for each row execute function ${syncFunction(table)}()`,
  ];
}

/** Returns SQL that computes an old column's value from the new columns. */
function previousValue(columns: ColumnSwap['columns'], name: string, type: string): string {
  const value = columns.find((column) => column.name === name);
  if (value === undefined) {
    // The column is an additional column of a field that is now text.
    const first = firstColumn(
      name,
      columns.map((column) => column.name),
    );
    return extraColumns.get(name.slice(first.length))?.(`new.${quote(first)}::text`) ?? 'null';
  }
  const current = `new.${quote(name)}`;
  return value.type.startsWith('timestamptz') && type === 'text'
    ? `to_char(${current} at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')`
    : `${current}::text::${type}`;
}
