import { type DatabaseConfig, type ModelTable, tablesOfModel } from '../database/index.ts';
import { UserError } from '../errors.ts';
import { quote } from '../sql/index.ts';
import { placementOf } from '../tables/index.ts';
import { entitiesOf, type Model } from './model.ts';

/** Where Citus keeps a table: spread by organization, whole on every node, or on the coordinator alone. */
export type CitusKind = 'distributed' | 'reference' | 'local';

/** A model on Citus. */
export interface CitusModel {
  readonly kinds: ReadonlyMap<string, CitusKind>;
  /** What makes an empty or filled PostgreSQL database with this model one that is distributed, in order. */
  readonly statements: readonly string[];
}

const organization = 'organization_id';

/**
 * How a model is distributed by organization.
 * @throws UserError naming every foreign key that Citus cannot have
 */
export async function citusModel(config: DatabaseConfig, model: Model): Promise<CitusModel> {
  const tables = await tablesOfModel(config, entitiesOf(model));
  const placements = new Map(model.tables.map((table) => [table.meta.tableName, placementOf(table)]));
  const kinds = new Map<string, CitusKind>();
  for (const { name, keys } of tables) {
    const placement = placements.get(name);
    const isDistributed = placement === undefined && keys.every((key) => key.includes(organization));
    kinds.set(name, placement === 'coordinator' ? 'local' : isDistributed ? 'distributed' : 'reference');
  }
  // No foreign key leads from a table that is whole to one that is spread.
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
  const impossible = tables.flatMap((table) => problemsOf(table, kinds));
  if (impossible.length > 0) throw new UserError(impossible.join('\n'));
  return { kinds, statements: statementsFor(tables, kinds) };
}

/** Foreign keys between tables that are spread include the organization; none leads to the coordinator. */
function problemsOf({ name, foreignKeys }: ModelTable, kinds: CitusModel['kinds']): string[] {
  return foreignKeys.flatMap(({ name: key, columns, to, toColumns }) => {
    if (kinds.get(to) === 'local') return [`${key} refers to ${to}, which is on the coordinator only`];
    if (kinds.get(name) !== 'distributed' || kinds.get(to) !== 'distributed') return [];
    const place = columns.indexOf(organization);
    return place >= 0 && toColumns[place] === organization ? [] : [`${key} does not include ${organization}`];
  });
}

/** Foreign keys are dropped first and restored last, because some are not allowed while tables change their kind. */
function statementsFor(tables: readonly ModelTable[], kinds: CitusModel['kinds']): string[] {
  const of = (kind: CitusKind) =>
    tables.filter(({ name }) => kinds.get(name) === kind).map(({ name }) => name);
  const [first, ...rest] = of('distributed');
  const keys = tables.flatMap(({ name, foreignKeys }) => foreignKeys.map((key) => ({ table: name, ...key })));
  return [
    'begin',
    `set local citus.multi_shard_modify_mode = 'sequential'`,
    // Ours read and write nothing but the row that they are called for, which is on their node.
    ...(tables.some(({ hasTriggers }) => hasTriggers) ? ['set local citus.enable_unsafe_triggers = on'] : []),
    ...keys.map(({ table, name }) => `alter table ${quote(table)} drop constraint ${quote(name)}`),
    ...of('reference').map((name) => `select create_reference_table('${quote(name)}')`),
    ...of('local').map((name) => `select citus_add_local_table_to_metadata('${quote(name)}')`),
    ...(first === undefined ? [] : [distribute(first, 'none')]),
    ...rest.map((name) => distribute(name, quote(first ?? ''))),
    ...keys.map((key) => addForeignKey(key, kinds)),
    'commit',
  ];
}

const distribute = (table: string, colocated: string): string =>
  `select create_distributed_table('${quote(table)}', '${organization}', colocate_with => '${colocated}')`;

function addForeignKey(
  { table, name, columns, to, toColumns, onDelete }: { table: string } & ModelTable['foreignKeys'][number],
  kinds: CitusModel['kinds'],
): string {
  const list = (names: readonly string[]) => names.map(quote).join(', ');
  // DELETE makes references null itself, on Citus in a part of its own, so that they are compared at the end of the transaction.
  const isSpread = kinds.get(table) === 'distributed' && kinds.get(to) === 'distributed';
  const rule = isSpread ? `${onDelete} deferrable initially deferred` : onDelete;
  return `alter table ${quote(table)} add constraint ${quote(name)} foreign key (${list(columns)}) references ${quote(to)} (${list(toColumns)}) on delete ${rule}`;
}
