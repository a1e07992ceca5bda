import { extraColumns, firstColumn } from '../fields/index.ts';
import { identifier, literal, quote } from '../sql/index.ts';
import { conversionGuard } from './conversion-checks.ts';
import type { LiveNode } from './nodes.ts';
import type { OlderModels } from './older-models.ts';

/** A column whose type changes. */
interface RetypedColumn {
  readonly name: string;
  /** The type, including its collation. */
  readonly type: string;
  /** SQL expression for the new value. */
  readonly using: string;
}

/** The column type changes of one table in a migration, with the affected indexes and constraints. */
export interface Retype {
  readonly table: string;
  /** All statements, for a table that can be changed in place. */
  readonly statements: readonly string[];
  readonly columns: readonly RetypedColumn[];
  /** Columns without a counterpart after the change. */
  readonly gone: readonly string[];
  /** Statements to run first, which replace or reject invalid values. */
  readonly before: readonly string[];
  /** Statements that drop the current indexes and constraints. */
  readonly drops: readonly string[];
  readonly indexes: readonly string[];
  readonly links: readonly string[];
  readonly defaults: ReadonlyMap<string, string>;
  readonly filled: readonly string[];
  readonly nullable: readonly string[];
}

const typeChangePattern = /^alter table "(\w+)" (alter column "\w+" type .*?);?$/s;
const columnPattern = /^alter column "(\w+)" type (.+?) using \((.*)\)$/s;
const columnRulePattern =
  /^alter table "(\w+)" alter column "(\w+)" (?:set default (.*?)|(set not null)|(drop not null));?$/s;
const indexPattern = /^create (?:unique )?index ("\w+") on "(\w+)" /;
const foreignKeyPattern = /^alter table "(\w+)" add constraint ("\w+") foreign key \("\w+", "(\w+)"\)/;

/** Groups the statements that change types of a table into one {@link Retype}, at the position of the last one. */
export function groupRetypes(statements: readonly string[]): readonly (string | Retype)[] {
  const retypes = new Map<string, Retype>();
  const positions = new Map<number, string>();
  for (const [position, sql] of statements.entries()) {
    const [, table = '', parts = ''] = typeChangePattern.exec(sql) ?? [];
    const columns = parts.split(/, (?=alter column "\w+" type )/).flatMap((clause) => {
      const [, name, type, using] = columnPattern.exec(clause) ?? [];
      return name === undefined || type === undefined || using === undefined ? [] : [{ name, type, using }];
    });
    const [first] = columns;
    if (first === undefined) continue;
    const alterColumn = `alter table ${quote(table)} alter column ${quote(first.name)}`;
    const start = statements
      .slice(0, position)
      .findLastIndex((text) => text.startsWith(`${alterColumn} drop default`));
    // A statement written by hand runs unchanged.
    if (start === -1) continue;
    const extra = [...extraColumns.keys()]
      .map((suffix) => `${first.name}${suffix}`)
      .find((name) => statements[position + 1] === `alter table ${quote(table)} drop column ${quote(name)};`);
    const end = extra === undefined ? position : position + 1;
    for (let index = start; index <= end; index++) positions.set(index, table);
    const group = statements.slice(start + 1, position);
    const isNullable = statements[start]?.includes('drop not null') === true;
    const retype = retypes.get(table) ?? emptyRetype(table);
    retypes.set(table, {
      ...retype,
      columns: [...retype.columns, ...columns],
      gone: [...retype.gone, ...(extra === undefined ? [] : [extra])],
      before: [
        ...retype.before,
        // The replacement for invalid values can be null.
        ...(isNullable && group.some((text) => text.startsWith('update '))
          ? [`${alterColumn} drop not null`]
          : []),
        ...group.filter((text) => /^(update|do) /.test(text)),
      ],
      drops: [...retype.drops, ...group.filter((text) => /^drop index| drop constraint /.test(text))],
      nullable: [...retype.nullable, ...(isNullable ? [first.name] : [])],
    });
  }
  for (const [position, sql] of statements.entries()) {
    const [, ruleTable = '', column = '', value, filled, nullable] = columnRulePattern.exec(sql) ?? [];
    const [, index = '', indexTable = ''] = indexPattern.exec(sql) ?? [];
    const [, referringTable = '', link, key = ''] = foreignKeyPattern.exec(sql) ?? [];
    const table = ruleTable || indexTable || referringTable;
    const retype = retypes.get(table);
    if (retype === undefined || positions.has(position)) continue;
    const names = retype.columns.map(({ name }) => name);
    if (index !== '' && names.some((name) => sql.includes(quote(name)))) {
      retypes.set(table, { ...retype, indexes: [...retype.indexes, sql] });
    } else if (link !== undefined && names.includes(key)) {
      retypes.set(table, { ...retype, links: [...retype.links, sql] });
    } else if (names.includes(column)) {
      retypes.set(table, {
        ...retype,
        ...(value !== undefined && { defaults: new Map([...retype.defaults, [column, value]]) }),
        ...(filled !== undefined && { filled: [...retype.filled, column] }),
        ...(nullable !== undefined && { nullable: [...retype.nullable, column] }),
      });
    } else continue;
    positions.set(position, table);
  }
  return statements.flatMap((sql, position): (string | Retype)[] => {
    const table = positions.get(position);
    if (table === undefined) return [sql];
    const indexes = [...positions].filter(([, name]) => name === table).map(([index]) => index);
    const retype = retypes.get(table);
    if (retype === undefined || position !== Math.max(...indexes)) return [];
    return [
      { ...retype, statements: indexes.sort((a, b) => a - b).map((index) => String(statements[index])) },
    ];
  });
}

const emptyRetype = (table: string): Retype => ({
  table,
  statements: [],
  columns: [],
  gone: [],
  before: [],
  drops: [],
  indexes: [],
  links: [],
  defaults: new Map(),
  filled: [],
  nullable: [],
});

/** The last step of a type change, which swaps the columns. Stored as JSON until it runs. */
export interface ColumnSwap {
  readonly table: string;
  readonly columns: readonly (RetypedColumn & {
    readonly default: string | null;
    readonly isFilled: boolean;
    readonly was: StoredColumn | null;
  })[];
  readonly gone: readonly StoredColumn[];
  readonly drops: readonly string[];
  readonly renames: readonly string[];
  /** All columns of the table before the swap. */
  readonly all: readonly string[];
}

/** A column in the database. */
export interface StoredColumn {
  readonly name: string;
  readonly type: string;
  readonly isFilled: boolean;
  readonly default: string | null;
}

/**
 * An update of a table's rows in batches, starting after a key. Sets missing values, or fires the trigger
 * that computes the new columns if `missing` is absent.
 */
export interface Backfill {
  readonly fill: string;
  readonly after?: readonly [organization: string, id: string];
  readonly missing?: { readonly column: string; readonly value: string };
}

/** A step that runs after the migration's transaction. Stored as JSON in the migration log. */
export type DeferredStep = string | Backfill | { readonly swap: ColumnSwap };

/** Returns deferred steps as an SQL literal for the migration log, or `null` if no steps remain. */
export const stepJson = (steps: readonly DeferredStep[]): string =>
  steps.length === 0 ? 'null' : literal(JSON.stringify(steps));

/** Returns the tables that deferred steps change. */
export const stepTables = (steps: readonly DeferredStep[]): readonly string[] =>
  steps.flatMap((step) => {
    if (typeof step !== 'string') return 'swap' in step ? [step.swap.table] : [step.fill];
    return [...step.matchAll(/(?:table|on) (?:if exists )?"(\w+)"/g)].flatMap(([, table]) => table ?? []);
  });

/** Column that marks records whose value does not fit the new type. */
const unfit = '"_unfit"';
const nextOf = (name: string): string => quote(identifier(`_${name}_next`));
const beforeOf = (name: string): string => quote(identifier(`_${name}_before`));
const routineOf = (table: string): string => quote(identifier(`${table}__types_fn`));
// The trigger's name sorts after the version trigger's name, because it has to revert the version's increment
// during a backfill.
const trigger = '"_zz_types"';

/** Returns a query that selects the current columns of a table as {@link StoredColumn}. */
export const storedColumnsSql = (table: string): string =>
  `select a.attname::text as name, format_type(a.atttypid, a.atttypmod) as type, a.attnotnull as "isFilled", pg_get_expr(d.adbin, d.adrelid) as default
   from pg_attribute a left join pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
   where a.attrelid = '${quote(table)}'::regclass and a.attnum > 0 and not a.attisdropped order by a.attnum`;

/**
 * Plans a type change for a table that is in use. A trigger keeps a second column in sync, which is backfilled in
 * batches, indexed, and then swapped with the first one.
 */
export function stageRetype(
  retype: Retype,
  stored: readonly StoredColumn[],
): { readonly now: readonly string[]; readonly later: readonly DeferredStep[] } {
  const { table, columns, gone, before, drops, indexes, links } = retype;
  const tableName = quote(table);
  const storedColumn = (name: string) => stored.find((column) => column.name === name) ?? null;
  const swap: ColumnSwap = {
    table,
    columns: columns.map((column) => {
      const previous = storedColumn(column.name);
      return {
        ...column,
        was: previous,
        default: retype.defaults.get(column.name) ?? null,
        isFilled:
          retype.filled.includes(column.name) ||
          (previous?.isFilled === true && !retype.nullable.includes(column.name)),
      };
    }),
    gone: gone.flatMap((name) => storedColumn(name) ?? []),
    drops,
    renames: [
      ...indexes.map((sql) => {
        const [, name = ''] = indexPattern.exec(sql) ?? [];
        return `alter index ${temporary(name)} rename to ${name}`;
      }),
      ...links.map((sql) => {
        const [, , name = ''] = foreignKeyPattern.exec(sql) ?? [];
        return `alter table ${tableName} rename constraint ${temporary(name)} to ${name}`;
      }),
    ],
    all: stored.map(({ name }) => name),
  };
  const onNext = (sql: string): string =>
    columns.reduce((text, { name }) => text.replaceAll(quote(name), nextOf(name)), sql);
  const values = columns.map(({ using }) => `(${using})`).join(', ');
  const targets = columns.map(({ name }) => `new.${nextOf(name)}`).join(', ');
  const nulls = JSON.stringify(Object.fromEntries(columns.map(({ name }) => [name, null])));
  const unfitIndex = quote(identifier(`_${table}_unfit`));
  return {
    now: [
      ...before,
      `alter table ${tableName} ${columns.map(({ name, type }) => `add ${nextOf(name)} ${type}`).join(', ')}, add ${unfit} boolean`,
      `create function ${routineOf(table)}() returns trigger language plpgsql as $types$ begin
        if tg_op = 'UPDATE' and current_setting('crm.filling', true) = 'on' then new."_version" := old."_version"; end if;
        begin
          select ${values} into ${targets} from (select new.*) ${tableName};
          new.${unfit} := null;
        exception when others then
          -- The write succeeds, but the columns are not swapped while such a record exists.
          new.${unfit} := true;
          select ${values} into ${targets} from (select (jsonb_populate_record(new, '${nulls}')).*) ${tableName};
        end;
        return new;
      end $types$`,
      `create trigger ${trigger} before insert or update on ${tableName} for each row execute function ${routineOf(table)}()`,
    ],
    later: [
      { fill: table },
      `drop index concurrently if exists ${unfitIndex}`,
      `create index concurrently ${unfitIndex} on ${tableName} ("organization_id") where ${unfit}`,
      ...indexes.flatMap((sql) => {
        const [, name = ''] = indexPattern.exec(sql) ?? [];
        return [
          `drop index concurrently if exists ${temporary(name)}`,
          onNext(sql).replace('index ', 'index concurrently ').replace(name, temporary(name)),
        ];
      }),
      ...links.flatMap((sql) => {
        const [, , name = ''] = foreignKeyPattern.exec(sql) ?? [];
        const constraintSql = onNext(sql)
          .replace(/;$/, '')
          .replace(name, temporary(name))
          .replace(`alter table ${tableName} `, '');
        return [
          `alter table ${tableName} drop constraint if exists ${temporary(name)}, ${constraintSql} not valid`,
          `alter table ${tableName} validate constraint ${temporary(name)}`,
        ];
      }),
      ...swap.columns
        .filter(({ isFilled }) => isFilled)
        .flatMap(({ name }) => {
          const check = checkOf(table, name);
          return [
            `alter table ${tableName} drop constraint if exists ${check}, add constraint ${check} check (${nextOf(name)} is not null) not valid`,
            `alter table ${tableName} validate constraint ${check}`,
          ];
        }),
      `analyze ${tableName}`,
      { swap },
    ],
  };
}

/** Temporary name of an index or constraint of a new column until the swap. */
const temporary = (name: string): string => quote(identifier(`_${name.slice(1, -1)}_next`));
const checkOf = (table: string, name: string): string => quote(identifier(`${table}_${name}_filled`));

/**
 * Returns the statements of a {@link ColumnSwap}, which run in one transaction.
 * @param outdatedNodes nodes that use the previous columns, which are kept for them and exposed by views
 */
export function swapStatements(
  { table, columns, gone, drops, renames, all }: ColumnSwap,
  outdatedNodes: readonly LiveNode[],
  olderModels: OlderModels,
): { readonly immediate: readonly string[]; readonly contract: readonly string[] } {
  const tableName = quote(table);
  const names = columns.map(({ name }) => name).join(', ');
  const oldColumns = [...columns.flatMap(({ was }) => was ?? []), ...gone];
  const alter = (parts: readonly string[]) => `alter table ${tableName} ${parts.join(', ')}`;
  const keepsOld = outdatedNodes.length > 0;
  const immediate = [
    `lock table ${tableName} in access exclusive mode`,
    conversionGuard(table, `${table}.${names}`, 'does not fit its new type', unfit),
    ...(keepsOld ? olderModels.show(table, outdatedNodes) : []),
    `drop function ${routineOf(table)}() cascade`,
    ...drops,
    ...(keepsOld
      ? oldColumns.flatMap(({ name }) => [
          alter([`alter column ${quote(name)} drop not null`, `alter column ${quote(name)} drop default`]),
          alter([`rename column ${quote(name)} to ${beforeOf(name)}`]),
        ])
      : [alter(oldColumns.map(({ name }) => `drop column ${quote(name)}`))]),
    ...columns.map(({ name }) => alter([`rename column ${nextOf(name)} to ${quote(name)}`])),
    ...renames,
    ...columns.flatMap(({ name, default: value, isFilled }) => [
      ...(value === null ? [] : [alter([`alter column ${quote(name)} set default ${value}`])]),
      ...(isFilled
        ? [
            alter([`alter column ${quote(name)} set not null`]),
            alter([`drop constraint ${checkOf(table, name)}`]),
          ]
        : []),
    ]),
    alter([`drop column ${unfit}`]),
  ];
  if (!keepsOld) return { immediate, contract: [] };
  return {
    immediate: [...immediate, ...syncTriggers(table, columns, oldColumns, all)],
    contract: [
      `drop function ${routineOf(table)}() cascade`,
      alter(oldColumns.map(({ name }) => `drop column ${beforeOf(name)}`)),
    ],
  };
}

/** Returns statements that create a trigger which keeps the columns of older and newer nodes in sync. */
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
  /** Returns the field of a column. Fields are synced separately, because conversions between types can lose values. */
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
    `create function ${routineOf(table)}() returns trigger language plpgsql as $types$ declare is_old boolean; is_new boolean; begin
      is_old := ${anyOf(before, (name) => `new.${name} is not null`)};
      is_new := not is_old;
      ${fields.join('\n      ')}
      return new;
    end $types$`,
    `create trigger ${trigger} before insert or update on ${tableName} for each row execute function ${routineOf(table)}()`,
  ];
}

/** Returns SQL that computes the value of an old column from the new columns. */
function previousValue(columns: ColumnSwap['columns'], name: string, type: string): string {
  const value = columns.find((column) => column.name === name);
  if (value === undefined) {
    // The column is an additional column of a field that is now a text.
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

/** Rows per backfill transaction. Concurrent writes to these rows wait until it commits. */
const batchRows = 500;

/**
 * Returns SQL that backfills the next batch and selects the key of its last row, or no row after the last
 * batch.
 */
export function backfillSql({ fill, after, missing }: Backfill): string {
  const tableName = quote(fill);
  const column = missing === undefined ? unfit : quote(missing.column);
  const missingCondition = missing === undefined ? '' : ` and t.${column} is null`;
  const startCondition =
    after === undefined
      ? ''
      : `where ("organization_id", "id") > (${after.map((columnPattern) => `${literal(columnPattern)}::bigint`).join(', ')})`;
  return `with _b as (select "organization_id", "id" from ${tableName} ${startCondition} order by "organization_id", "id" limit ${batchRows}),
    _u as (update ${tableName} t set ${column} = ${missing?.value ?? `t.${column}`} from _b where t."organization_id" = _b."organization_id" and t."id" = _b."id"${missingCondition})
    select "organization_id"::text as organization, "id"::text as id from _b order by _b."organization_id" desc, _b."id" desc limit 1`;
}
