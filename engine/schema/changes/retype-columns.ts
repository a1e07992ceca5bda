import { type IndexShape, identifier, quote } from '../../sql/index.ts';
import { filledCheck, nextName, syncFunction, syncTrigger } from '../column-swap.ts';
import { type DeferredStep, type StoredColumn, unfit } from '../steps.ts';
import { type Change, ofKind, type RetypeColumns, type SimpleChange } from './change.ts';
import { alterTable, typeSql } from './columns-sql.ts';
import { constraintClause } from './constraints.ts';
import { changeEffects } from './effects.ts';
import { foreignKeySql } from './foreign-keys.ts';
import { buildSql } from './indexes.ts';
import type { Kind, OnlineForm } from './kind.ts';
import { changeAmong, listOf, text } from './rules.ts';
import { simpleKinds } from './simple.ts';

/** Returns the columns whose type changes. */
export const retypedColumns = ({ changes }: RetypeColumns) =>
  ofKind(changes, 'alterTypes').flatMap(({ columns }) => columns);

/** Returns all columns that the change replaces or drops, and the indexes and foreign keys that it replaces. */
export const replacedParts = (change: RetypeColumns) => ({
  table: change.table,
  columns: [
    ...retypedColumns(change).map(({ name }) => name),
    ...ofKind(change.changes, 'dropColumns').flatMap(({ columns }) => columns),
  ],
  known: droppedParts(change).map(({ name }) => name),
});

const droppedParts = ({ changes }: RetypeColumns) => [
  ...ofKind(changes, 'dropForeignKey'),
  ...ofKind(changes, 'dropIndex'),
];

/** Returns the changes that reject or replace values, which run in the migration's transaction. */
export function preparations({ changes }: RetypeColumns): readonly SimpleChange[] {
  const replaced = ofKind(changes, 'backfill').map(({ column }) => column);
  return [
    // Replacements for invalid values can be null.
    ...ofKind(changes, 'nullability').filter(({ column, nullable }) => nullable && replaced.includes(column)),
    ...changes.filter(({ kind }) => kind === 'backfill' || kind === 'check'),
  ];
}

export const retypeColumns: Kind<RetypeColumns> = {
  rules: { table: text, changes: listOf(changeAmong(simpleKinds)) },
  apply: (tables, { changes }) =>
    changes.reduce((before, change) => kindOf(change).apply(before, change), tables),
  sql: ({ changes }) => sqlOf(changes),
  risk: () => changeEffects('ACCESS EXCLUSIVE', 'rewrites', 'blocking', 'data-dependent', 'needs a restart'),
  describe: () => 'changes column types',
  online: onlineForm,
};

const kindOf = <K extends SimpleChange['kind']>(
  change: Extract<SimpleChange, { kind: K }>,
): Kind<Extract<SimpleChange, { kind: K }>> => simpleKinds[change.kind as K];

const sqlOf = (changes: readonly SimpleChange[]): readonly string[] =>
  changes.flatMap((change) => kindOf(change).sql(change));

/** Adds shadow columns, keeps them in sync with a trigger, backfills and indexes them, and swaps them in. */
function onlineForm(change: RetypeColumns, stored: readonly StoredColumn[]): OnlineForm {
  const { table, changes } = change;
  const columns = retypedColumns(change);
  const indexes = ofKind(changes, 'createIndex');
  const links = ofKind(changes, 'addForeignKey');
  const rules = ofKind(changes, 'nullability');
  const constraints = ofKind(changes, 'addConstraint');
  const drops = droppedParts(change);
  const tableName = quote(table);
  const storedColumn = (name: string) => stored.find((column) => column.name === name) ?? null;
  const isNullable = (name: string, nullable: boolean) =>
    rules.some((rule) => rule.column === name && rule.nullable === nullable);
  const swapped = columns.map(({ name, using, ...type }) => {
    const previous = storedColumn(name);
    const { value = null } =
      ofKind(changes, 'default').findLast(({ column, value }) => column === name && value !== null) ?? {};
    return {
      name,
      type: typeSql(type),
      using,
      was: previous,
      default: value,
      isFilled: isNullable(name, false) || (previous?.isFilled === true && !isNullable(name, true)),
    };
  });
  const dropped = ofKind(changes, 'dropColumns').flatMap(({ columns: names }) => names);
  const values = columns.map(({ using }) => `(${using})`).join(', ');
  const nextNames = columns.map(({ name }) => quote(nextName(name)));
  const targets = nextNames.map((name) => `new.${name}`).join(', ');
  const nulls = JSON.stringify(Object.fromEntries(columns.map(({ name }) => [name, null])));
  /** Replaces quoted column names in an SQL expression with the names of the second columns. */
  const onNext = (expression: string): string =>
    columns.reduce((text, { name }) => text.replaceAll(quote(name), quote(nextName(name))), expression);
  const nextIndex = ({ keys, where, ...index }: IndexShape): IndexShape => ({
    ...index,
    keys: keys.map(onNext),
    ...(where !== undefined && { where: onNext(where) }),
  });
  const isRetyped = (name: string) => columns.some((column) => column.name === name);
  const sql = (...actions: readonly string[]): DeferredStep => ({
    table,
    sql: alterTable(table, ...actions),
  });
  return {
    now: [
      ...sqlOf(preparations(change)),
      alterTable(
        table,
        ...swapped.map(({ name, type }) => `add ${quote(nextName(name))} ${type}`),
        `add ${unfit} boolean`,
      ),
      `create function ${syncFunction(table)}() returns trigger language plpgsql as $types$ begin
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
      `create trigger ${syncTrigger} before insert or update on ${tableName} for each row execute function ${syncFunction(table)}()`,
    ],
    later: [
      { fill: table },
      {
        table,
        build: buildSql(table, identifier(`_${table}_unfit`), { keys: ['"organization_id"'], where: unfit }),
      },
      ...indexes.map(({ name, index }) => ({
        table,
        build: buildSql(table, nextName(name), nextIndex(index)),
      })),
      ...links.flatMap(({ name, key }) => {
        const next = nextName(name);
        const nextKey = {
          ...key,
          columns: key.columns.map((column) => (isRetyped(column) ? nextName(column) : column)),
        };
        return [
          sql(`drop constraint if exists ${quote(next)}`, `${foreignKeySql(next, nextKey)} not valid`),
          sql(`validate constraint ${quote(next)}`),
        ];
      }),
      ...constraints.flatMap(({ name, check: { condition } }) => {
        const next = nextName(name);
        const clause = constraintClause(next, { condition: onNext(condition) });
        return [
          sql(`drop constraint if exists ${quote(next)}`, `${clause} not valid`),
          sql(`validate constraint ${quote(next)}`),
        ];
      }),
      ...swapped
        .filter(({ isFilled }) => isFilled)
        .flatMap(({ name }) => {
          const filled = filledCheck(table, name);
          const condition = `check (${quote(nextName(name))} is not null)`;
          return [
            sql(`drop constraint if exists ${filled}`, `add constraint ${filled} ${condition} not valid`),
            sql(`validate constraint ${filled}`),
          ];
        }),
      { table, sql: `analyze ${tableName}` },
      {
        swap: {
          table,
          columns: swapped,
          gone: dropped.flatMap((name) => storedColumn(name) ?? []),
          drops: sqlOf(drops),
          known: drops.map(({ name }) => name),
          renames: [
            ...indexes.map(({ name }) => `alter index ${quote(nextName(name))} rename to ${quote(name)}`),
            ...[...links, ...constraints].map(({ name }) =>
              alterTable(table, `rename constraint ${quote(nextName(name))} to ${quote(name)}`),
            ),
          ],
          all: stored.map(({ name }) => name),
        },
      },
    ],
    says: 'backfills a second column in batches after the rest of the migration, without blocking reads or writes, then swaps the columns',
  };
}

/**
 * Combines type changes to a table's columns, and changes to their indexes, foreign keys and rules, into one
 * {@link RetypeColumns} per table, at the position of the last combined change.
 */
export function groupRetypes(changes: readonly Change[]): readonly Change[] {
  const groups = new Map<string, SimpleChange[]>();
  const ends = new Map<string, Change>();
  const retyped = Map.groupBy(ofKind(changes, 'retypeColumns'), ({ table }) => table);
  const rest = changes.filter((change) => {
    if (!('table' in change) || change.table === undefined) return true;
    const names = (retyped.get(change.table) ?? []).flatMap(retypedColumns).map(({ name }) => name);
    if (!dependsOn(change, names)) return true;
    const group = change.kind === 'retypeColumns' ? change.changes : [change];
    groups.set(change.table, [...(groups.get(change.table) ?? []), ...group]);
    ends.set(change.table, change);
    return false;
  });
  return changes.flatMap((change): readonly Change[] => {
    if (rest.includes(change)) return [change];
    const [table] = [...ends].find(([, end]) => end === change) ?? [];
    return table === undefined ? [] : [{ kind: 'retypeColumns', table, changes: groups.get(table) ?? [] }];
  });
}

/** Returns whether a change belongs to a type change of columns in its table. */
function dependsOn(change: Change, columns: readonly string[]): boolean {
  switch (change.kind) {
    case 'retypeColumns':
      return true;
    case 'createIndex':
      return columns.some((name) => change.index.keys.some((key) => key.includes(quote(name))));
    case 'addConstraint':
      return columns.some((name) => change.check.condition.includes(quote(name)));
    case 'addForeignKey':
      return change.key.columns.some((name) => columns.includes(name));
    case 'default':
    case 'nullability':
      return columns.includes(change.column);
    default:
      return false;
  }
}
