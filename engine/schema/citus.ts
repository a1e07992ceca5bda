import type { DatabaseConfig, ForeignKeyShape } from '../database/index.ts';
import { UserError } from '../errors.ts';
import { hasCustomFields } from '../fields/index.ts';
import { parentLockTrigger, rollupTrigger } from '../records/index.ts';
import { quote } from '../sql/index.ts';
import { placementOf } from '../tables/index.ts';
import { type Model, shapesOf } from './model.ts';

/** Citus table type: distributed by organization, replicated to every node, or only on the coordinator. */
export type CitusKind = 'distributed' | 'reference' | 'local';

/** Distribution of a model on Citus. */
export interface CitusModel {
  readonly kinds: ReadonlyMap<string, CitusKind>;
  /** Statements that distribute a database with this model, in order. The tables can contain rows. */
  readonly statements: readonly string[];
}

const organization = 'organization_id';

/** A table's keys and references. */
interface ModelTable {
  readonly name: string;
  /** The primary key and each unique index, as lists of SQL expressions. */
  readonly keys: readonly (readonly string[])[];
  readonly foreignKeys: readonly (ForeignKeyShape & { readonly name: string })[];
  readonly hasTriggers: boolean;
}

/**
 * Plans how to distribute a model by organization.
 * @throws UserError with every foreign key and trigger that Citus does not support
 */
export async function citusModel(config: DatabaseConfig, model: Model): Promise<CitusModel> {
  const shapes = await shapesOf(config, model);
  const tables = Object.entries(shapes).map(
    ([name, { indexes, foreignKeys, triggers }]): ModelTable => ({
      name,
      keys: Object.values(indexes).flatMap((index) =>
        'keys' in index && index.kind !== undefined ? [index.keys] : [],
      ),
      foreignKeys: Object.entries(foreignKeys).map(([key, shape]) => ({ name: key, ...shape })),
      hasTriggers: Object.keys(triggers).length > 0,
    }),
  );
  const placements = new Map(model.tables.map((table) => [table.meta.tableName, placementOf(table)]));
  const kinds = new Map<string, CitusKind>();
  for (const { name, keys } of tables) {
    const placement = placements.get(name);
    const isDistributed = placement === undefined && keys.every((key) => key.includes(quote(organization)));
    kinds.set(name, placement === 'coordinator' ? 'local' : isDistributed ? 'distributed' : 'reference');
  }
  // Citus does not support foreign keys from reference tables to distributed tables, so the referenced tables
  // become reference tables as well.
  for (let isComplete = false; !isComplete; ) {
    isComplete = true;
    for (const { name, foreignKeys } of tables) {
      if (kinds.get(name) === 'distributed') continue;
      for (const { to } of foreignKeys) {
        if (kinds.get(to) !== 'distributed') continue;
        kinds.set(to, 'reference');
        isComplete = false;
      }
    }
  }
  const problems = [
    ...tables.flatMap((table) => problemsOf(table, kinds)),
    ...model.resources
      .filter(({ linkEntities }) => linkEntities.length > 0)
      .map(({ name }) => `${name} has fields of type references, whose triggers write other tables`),
    ...Object.entries(shapes)
      .filter(([, { triggers }]) => Object.hasOwn(triggers, rollupTrigger))
      .map(([name]) => `${name} is combined by stored rollups, whose triggers write other tables`),
    ...Object.entries(shapes)
      .filter(([, { triggers }]) => Object.hasOwn(triggers, parentLockTrigger))
      .map(([name]) => `${name} has parents with locks, whose triggers read other tables`),
    ...model.resources
      .filter(({ definition }) => hasCustomFields(definition))
      .map(({ name }) => `${name} has custom fields, whose trigger writes another table`),
  ];
  if (problems.length > 0) throw new UserError(problems.join('\n'));
  return { kinds, statements: statementsFor(tables, kinds) };
}

/**
 * Returns the table's foreign keys that Citus does not support. Foreign keys between distributed tables must
 * include the organization, and only tables on the coordinator can refer to a table on the coordinator.
 */
function problemsOf({ name, foreignKeys }: ModelTable, kinds: CitusModel['kinds']): string[] {
  return foreignKeys.flatMap(({ name: key, columns, to, toColumns }) => {
    if (kinds.get(to) === 'local')
      return kinds.get(name) === 'local' ? [] : [`${key} refers to ${to}, which is on the coordinator only`];
    if (kinds.get(name) !== 'distributed' || kinds.get(to) !== 'distributed') return [];
    const index = columns.indexOf(organization);
    return index >= 0 && toColumns[index] === organization ? [] : [`${key} does not include ${organization}`];
  });
}

/**
 * Returns the statements that distribute tables. Foreign keys are dropped first and restored last, because
 * Citus rejects some of them while the tables are being distributed.
 */
function statementsFor(tables: readonly ModelTable[], kinds: CitusModel['kinds']): string[] {
  const tablesOfKind = (kind: CitusKind) =>
    tables.filter(({ name }) => kinds.get(name) === kind).map(({ name }) => name);
  const [firstTable, ...otherTables] = tablesOfKind('distributed');
  const keys = tables.flatMap(({ name, foreignKeys }) => foreignKeys.map((key) => ({ table: name, ...key })));
  return [
    'begin',
    `set local citus.multi_shard_modify_mode = 'sequential'`,
    // The engine's triggers are safe: they read and write only the row that fires them, which is on the same
    // node.
    ...(tables.some(({ hasTriggers }) => hasTriggers) ? ['set local citus.enable_unsafe_triggers = on'] : []),
    ...keys.map(({ table, name }) => `alter table ${quote(table)} drop constraint ${quote(name)}`),
    ...tablesOfKind('reference').map((name) => `select create_reference_table('${quote(name)}')`),
    ...tablesOfKind('local').map((name) => `select citus_add_local_table_to_metadata('${quote(name)}')`),
    ...(firstTable === undefined ? [] : [distribute(firstTable, 'none')]),
    ...otherTables.map((name) => distribute(name, quote(firstTable ?? ''))),
    ...keys.map((key) => addForeignKey(key, kinds)),
    'commit',
  ];
}

const distribute = (table: string, colocated: string): string =>
  `select create_distributed_table('${quote(table)}', '${organization}', colocate_with => '${colocated}')`;

function addForeignKey(
  {
    table,
    name,
    columns,
    to,
    toColumns,
    onDelete = 'no action',
  }: { table: string } & ModelTable['foreignKeys'][number],
  kinds: CitusModel['kinds'],
): string {
  const list = (names: readonly string[]) => names.map(quote).join(', ');
  // On Citus, a DELETE sets references to null in a separate statement, so the constraint is checked at the end of the
  // transaction.
  const isDistributed = kinds.get(table) === 'distributed' && kinds.get(to) === 'distributed';
  const rule = isDistributed ? `${onDelete} deferrable initially deferred` : onDelete;
  return `alter table ${quote(table)} add constraint ${quote(name)} foreign key (${list(columns)}) references ${quote(to)} (${list(toColumns)}) on delete ${rule}`;
}
