import type { ResourceDefinition } from '../definition/index.ts';
import { type Field, isStoredRollup } from '../fields/index.ts';
import { quote, record, type TriggerShape, trashedColumn } from '../sql/index.ts';
import { type CombinedResources, rollupColumnSql } from './rollups.ts';

/** The stored rollups of a resource. */
export interface StoredRollups {
  /** Name of the resource. */
  readonly resource: string;
  /** Names of the resources whose records they combine. */
  readonly of: readonly string[];
  /** SQL expressions for the values of a record `t`, by column. */
  readonly values: Readonly<Record<string, string>>;
}

/** Returns a resource's stored rollups. @param isIncluded returns whether to include a rollup; all by default */
export function storedRollups(
  { name, fields }: Pick<ResourceDefinition, 'name' | 'fields'>,
  definitions: readonly ResourceDefinition[],
  isIncluded: (field: Field) => boolean = () => true,
): StoredRollups {
  const resources = resourcesOf(definitions);
  const rollups = fields.filter((field) => isStoredRollup(field) && isIncluded(field));
  return {
    resource: name,
    of: [...new Set(rollups.flatMap(({ rollup }) => rollup?.of ?? []))],
    values: Object.fromEntries(rollups.map((field) => [field.name, rollupColumnSql(field, name, resources)])),
  };
}

const resourcesOf = (definitions: readonly ResourceDefinition[]): CombinedResources =>
  new Map(definitions.map((definition) => [definition.name, { stored: definition }]));

/**
 * Returns the statement that updates outdated stored rollups.
 * @param keys SQL expressions for the records' organizations and IDs as arrays; all records if undefined
 */
export function recalculateSql(
  { resource, values }: Pick<StoredRollups, 'resource' | 'values'>,
  keys?: { readonly organizations: string; readonly ids: string },
): string {
  const columns = Object.keys(values).map(quote);
  const listOf = (alias: string) => columns.map((name) => `${alias}.${name}`).join(', ');
  const isSame = (one: string, other: string) =>
    `${one}."organization_id" = ${other}."organization_id" and ${one}."id" = ${other}."id"`;
  const from =
    keys === undefined
      ? `${quote(resource)} ${record}`
      : `unnest(${keys.organizations}, ${keys.ids}) _k("organization_id", "id") join ${quote(resource)} ${record} on ${isSame(record, '_k')}`;
  const expressions = Object.entries(values).map(([name, value]) => `${value} as ${quote(name)}`);
  // Without "offset", the planner would evaluate the expressions twice.
  const current = `select ${record}."organization_id", ${record}."id", ${expressions.join(', ')} from ${from} offset 0`;
  return `update ${quote(resource)} ${record} set ${columns.map((name) => `${name} = _v.${name}`).join(', ')} from (${current}) _v where ${isSame(record, '_v')} and (${listOf(record)}) is distinct from (${listOf('_v')})`;
}

/** Names of the triggers, by event. The capital letters prevent collisions with the names of operators' triggers. */
const triggerNames = { insert: 'rollupsInsert', update: 'rollupsUpdate', delete: 'rollupsDelete' } as const;

/** Name of a trigger that every resource with records in stored rollups has. */
export const rollupTrigger = triggerNames.insert;

/**
 * Returns the triggers that update the stored rollups of a resource's records. They first lock the records to which the
 * written records refer or referred, in the order of their IDs. The next statement sees all committed rows, so values are
 * exact even if several transactions write records that refer to the same record.
 */
export function rollupTriggers(
  definition: ResourceDefinition,
  definitions: readonly ResourceDefinition[],
): readonly (TriggerShape & { readonly name: string })[] {
  const owners = definitions.flatMap((owner) => {
    const rollups = owner.fields.filter(
      (field) => isStoredRollup(field) && field.rollup?.of === definition.name,
    );
    return rollups.length === 0 ? [] : [{ owner, rollups }];
  });
  if (owners.length === 0) return [];
  return Object.entries(triggerNames).map(([event, name]) => ({
    name,
    timing: 'after',
    events: [event],
    forEach: 'statement',
    body: [
      'declare _organizations bigint[]; _ids bigint[]; begin',
      ...owners.flatMap(({ owner, rollups }) => [
        `select array_agg(_k."organization_id"), array_agg(_k."id") into _organizations, _ids from (${keysSql(event, rollups, definition)}) _k;`,
        `if _ids is not null then ${lockSql(owner)}; ${updateSql(owner, rollups, definitions)}; end if;`,
      ]),
      'end; return null;',
    ].join(' '),
  }));
}

/** Returns the statement that locks the records in the arrays. */
const lockSql = ({ name }: Pick<ResourceDefinition, 'name'>): string =>
  `perform from ${quote(name)} ${record} where (${record}."organization_id", ${record}."id") in (select * from unnest(_organizations, _ids)) order by ${record}."organization_id", ${record}."id" for no key update`;

/** Returns the statement that updates rollups of the records in the arrays. */
const updateSql = (
  owner: ResourceDefinition,
  rollups: readonly Field[],
  definitions: readonly ResourceDefinition[],
): string =>
  recalculateSql(
    storedRollups(owner, definitions, (field) => rollups.includes(field)),
    { organizations: '_organizations', ids: '_ids' },
  );

/** Returns a query for the keys of the records whose rollups a write affects. */
function keysSql(
  event: string,
  rollups: readonly Field[],
  { trash }: Pick<ResourceDefinition, 'trash'>,
): string {
  const references = [...new Set(rollups.flatMap(({ rollup }) => rollup?.by ?? []))];
  const keysIn = (table: string, from = table, condition = '') =>
    references.map((by) => {
      const reference = `${table}.${quote(by)}`;
      return `select distinct ${table}."organization_id", ${reference} as "id" from ${from} where ${reference} is not null${condition}`;
    });
  if (event !== 'update') return keysIn(event === 'insert' ? '_new' : '_old').join(' union ');
  const columns = [
    ...new Set([
      ...references,
      ...rollups.flatMap(combinedColumns),
      ...(trash === undefined ? [] : [trashedColumn]),
    ]),
  ];
  const listOf = (table: string) => columns.map((name) => `${table}.${quote(name)}`).join(', ');
  const joined =
    '_old join _new on _new."organization_id" = _old."organization_id" and _new."id" = _old."id"';
  const isChanged = ` and (${listOf('_new')}) is distinct from (${listOf('_old')})`;
  return [...keysIn('_old', joined, isChanged), ...keysIn('_new', joined, isChanged)].join(' union ');
}

/** Returns the names of the columns that a rollup reads in the records that it combines, except the reference. */
export function combinedColumns({ rollup }: Pick<Field, 'rollup'>): readonly string[] {
  const names = new Set<string>();
  const columnOf = (name: string) => {
    names.add(name);
    return quote(name);
  };
  const input = rollup?.field;
  if (input !== undefined) input.computed?.sql(columnOf) ?? columnOf(input.name);
  rollup?.condition?.sql(columnOf);
  return [...names];
}
