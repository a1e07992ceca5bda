import { sqlState } from '../database/index.ts';
import type { ResourceDefinition } from '../definition/index.ts';
import { errors, type HttpError } from '../errors.ts';
import { conditionSql, noCaller } from '../expressions/index.ts';
import { isStoredRollup } from '../fields/index.ts';
import {
  column,
  literal,
  quote,
  record,
  type TriggerShape,
  trashedColumn,
  versionColumn,
} from '../sql/index.ts';
import type { VisibleResource } from './rows.ts';

/** SQLSTATE of the error with which the triggers reject a write. Its table is the resource of the locked record. */
const lockedState = '45L00';

/**
 * Setting of a transaction whose writes ignore a lock: `all`, or the resource, organization and ID of the record whose
 * children it can write. Callers of the API cannot set it.
 */
export const lockSetting = 'crm.unlocked';

/** Returns the statement with which a transaction ignores locks, for example because a migration converts values. */
export const ignoreLocksSql = `set local ${lockSetting} = 'all'`;

/** SQL condition with which a single statement ignores locks. It is always true. */
export const ignoringLocksSql = `set_config('${lockSetting}', 'all', true) is not null`;

/** Returns the SQL condition that a record is locked. Records in the trash are not. @param alias alias of the row */
export function lockedSql({ locked, trash }: ResourceDefinition, alias: string): string {
  if (locked === undefined) return 'false';
  const condition = conditionSql(locked.condition, {
    column: (name) => column({ name }, alias),
    ...noCaller,
  });
  return trash === undefined
    ? condition
    : `(${column({ name: trashedColumn }, alias)} is null and ${condition})`;
}

/** Returns an SQL expression for the value of {@link lockSetting} that unlocks a record's children. */
export const unlockedSql = (resource: string, alias: string): string =>
  `concat_ws(' ', ${literal(resource)}, ${alias}."organization_id", ${alias}."id")`;

/** Returns the PL/pgSQL statement that rejects a write. */
const rejectSql = ({ name, singular }: ResourceDefinition): string =>
  `raise exception ${literal(errors.locked(singular).message.replaceAll('%', '%%'))} using errcode = '${lockedState}', table = ${literal(name)};`;

const listSql = (names: readonly string[]): string => `array[${names.map(literal).join(', ')}]::text[]`;

/** Columns that the server changes with every write. */
const serverColumns = ({ fields }: ResourceDefinition): readonly string[] => [
  versionColumn,
  ...fields.filter(({ set }) => set === 'updated' || set === 'editor').map(({ name }) => name),
];

const rollupColumns = ({ fields }: ResourceDefinition): readonly string[] =>
  fields.filter(isStoredRollup).map(({ name }) => name);

/** Returns the fields of a locked record that can change along their transitions. */
export const changeableFields = ({ fields }: Pick<ResourceDefinition, 'fields'>) =>
  fields.filter(
    ({ transitions, aliasOf, readOnly }) => transitions !== undefined && aliasOf === undefined && !readOnly,
  );

/**
 * Returns the SQL condition that an update does something other than change some columns: it changes none of them, or
 * others, too. Columns that the server changes with every write do not count.
 * @param rows aliases of the row before and after the update
 */
function changesOther(
  definition: ResourceDefinition,
  columns: readonly string[],
  { before, after }: { readonly before: string; readonly after: string },
): string {
  if (columns.length === 0) return 'true';
  const ignored = listSql([...serverColumns(definition), ...columns]);
  const rest = (row: string) => `to_jsonb(${row}) - ${ignored}`;
  const listOf = (row: string) => columns.map((name) => `${row}.${quote(name)}`).join(', ');
  return `(${listOf(after)}) is not distinct from (${listOf(before)}) or ${rest(after)} is distinct from ${rest(before)}`;
}

type NamedTrigger = TriggerShape & { readonly name: string };

/** Names of the triggers that reject writes to records, and to children by event. The capital letters prevent collisions with the names of operators' triggers. */
const names = {
  record: 'recordLock',
  insert: 'parentLockInsert',
  update: 'parentLockUpdate',
  delete: 'parentLockDelete',
} as const;

/** Names of all triggers that reject writes because of a lock. */
export const lockTriggers: readonly string[] = Object.values(names);

/** Name of a trigger that the resources of all writable children of records with locks have. */
export const parentLockTrigger = names.insert;

/**
 * Returns the trigger that rejects writes to a resource's locked records. It runs on the latest version of the record, so
 * concurrent writes cannot bypass it. An update can change only a field with transitions, or stored rollups.
 */
export function recordLockTrigger(definition: ResourceDefinition): NamedTrigger | undefined {
  if (definition.locked === undefined) return undefined;
  const free = [...changeableFields(definition).map(({ name }) => name), ...rollupColumns(definition)];
  const changes = changesOther(definition, free, { before: 'old', after: 'new' });
  return {
    name: names.record,
    timing: 'before',
    events: ['update', 'delete'],
    body: [
      `if ${lockedSql(definition, 'old')} and current_setting('${lockSetting}', true) is distinct from 'all' then`,
      `if tg_op = 'DELETE' then ${rejectSql(definition)} elsif ${changes} then ${rejectSql(definition)} end if;`,
      'end if; return coalesce(new, old);',
    ].join(' '),
  };
}

/** Returns the references of a resource whose records cannot be changed if they are writable children of a locked record. */
export const lockingReferences = (
  { locked, children }: Pick<ResourceDefinition, 'locked' | 'children'>,
  { name }: Pick<ResourceDefinition, 'name'>,
): readonly string[] =>
  locked === undefined
    ? []
    : children.filter(({ of, isWritable }) => of === name && isWritable).map(({ by }) => by);

/**
 * Returns the triggers that reject writes to a resource's records if they are writable children of a locked record. They
 * first lock the records to which the written records refer or referred, in the order of their IDs, so that the record
 * cannot become locked in the meantime.
 */
export function parentLockTriggers(
  definition: ResourceDefinition,
  definitions: readonly ResourceDefinition[],
): readonly NamedTrigger[] {
  const parents = definitions.flatMap((parent) => {
    const references = lockingReferences(parent, definition);
    return references.length === 0 ? [] : [{ parent, references }];
  });
  if (parents.length === 0) return [];
  return (['insert', 'update', 'delete'] as const).map((event) => ({
    name: names[event],
    timing: 'after',
    events: [event],
    forEach: 'statement',
    body: [
      'declare _organizations bigint[]; _ids bigint[]; _is_locked boolean; begin',
      `if current_setting('${lockSetting}', true) is distinct from 'all' then`,
      ...parents.flatMap(({ parent, references }) => [
        `select array_agg(_k."organization_id"), array_agg(_k."id") into _organizations, _ids from (${keysSql(event, references, definition)}) _k;`,
        // The condition is not in a WHERE clause, because rows that do not meet it yet have to be locked, too.
        `if _ids is not null then select bool_or(_p._locked) into _is_locked from (select coalesce(${lockedSql(parent, record)}, false) and current_setting('${lockSetting}', true) is distinct from ${unlockedSql(parent.name, record)} as _locked from ${quote(parent.name)} ${record} where (${record}."organization_id", ${record}."id") in (select * from unnest(_organizations, _ids)) order by ${record}."organization_id", ${record}."id" for no key update) _p; if _is_locked then ${rejectSql(parent)} end if; end if;`,
      ]),
      'end if; end; return null;',
    ].join(' '),
  }));
}

/** Returns a query for the keys of the records to which written records refer or referred. */
function keysSql(event: string, references: readonly string[], definition: ResourceDefinition): string {
  const trashed = quote(trashedColumn);
  const keysIn = (table: string, from: string, conditions: readonly string[]) =>
    references.map(
      (by) =>
        `select distinct ${table}."organization_id", ${table}.${quote(by)} as "id" from ${from} where ${[`${table}.${quote(by)} is not null`, ...conditions].join(' and ')}`,
    );
  if (event === 'insert') return keysIn('_new', '_new', []).join(' union ');
  const hasTrash = definition.trash !== undefined;
  if (event === 'delete')
    return keysIn('_old', '_old', hasTrash ? [`_old.${trashed} is null`] : []).join(' union ');
  const rollups = rollupColumns(definition);
  const conditions = [
    ...(hasTrash ? [`(_old.${trashed} is null or _new.${trashed} is null)`] : []),
    // An update of stored rollups does not change the record.
    ...(rollups.length === 0
      ? []
      : [`(${changesOther(definition, rollups, { before: '_old', after: '_new' })})`]),
  ];
  const joined =
    '_old join _new on _new."organization_id" = _old."organization_id" and _new."id" = _old."id"';
  return [...keysIn('_old', joined, conditions), ...keysIn('_new', joined, conditions)].join(' union ');
}

/** The resources whose locks can reject a write, as the caller sees them. */
export type LockedResources = ReadonlyMap<string, Pick<VisibleResource, 'definition' | 'stored'>>;

/**
 * Returns the error for a locked record. Its message is the declared one only if the caller can read all fields of the
 * condition, because it could otherwise reveal their values.
 */
export function lockedError({
  definition,
  stored,
}: Pick<VisibleResource, 'definition' | 'stored'>): HttpError {
  const { locked, singular } = stored;
  const isVisible = locked?.condition.fields.every((name) =>
    definition.fields.some((field) => field.name === name),
  );
  return errors.locked(singular, isVisible === true ? locked?.message : undefined);
}

/** Returns the error for a write that was rejected because of a locked record, or undefined for other failures. */
export function lockViolation(resources: LockedResources, cause: unknown): HttpError | undefined {
  if (sqlState(cause) !== lockedState) return undefined;
  const resource = resources.get(String((cause as { readonly table?: unknown }).table));
  return resource && lockedError(resource);
}
