import type { ResourceDefinition } from '../definition/index.ts';
import { errors, type HttpError } from '../errors.ts';
import { conditionSql, equality } from '../expressions/index.ts';
import { type Field, lookupOf } from '../fields/index.ts';
import { column, literal, type Placeholder, quote, record, trashedColumn } from '../sql/index.ts';
import { teamSql } from '../tables/index.ts';
import type { Action, Principal, RecordLimit } from './access.ts';
import { raisedSql, raisedText } from './raised.ts';

/** The values bound by every statement for records. */
export interface RowScope {
  /** ID of the caller's organization, as a decimal string. */
  readonly organization: string;
}

/** The values bound by a statement that depends on the acting user. */
export interface CallerScope extends RowScope {
  readonly caller: { readonly principal: Pick<Principal, 'kind' | 'actor' | 'user' | 'grants'> };
}

/** The records of a resource on which the caller can perform an action. Absent if they are not limited. */
export type RowLimits = Readonly<Partial<Record<Action, readonly RecordLimit[]>>>;

/** A resource as a caller sees it. */
export interface VisibleResource {
  /** The definition without the fields that the caller cannot read. */
  readonly definition: ResourceDefinition;
  /** The complete definition. */
  readonly stored: ResourceDefinition;
  /** The records on which the caller can perform each action; absent if they are not limited. */
  readonly rows?: RowLimits;
  /** Whether statements access only the records in the trash, or also these. If absent, they access only other records. */
  readonly trashed?: 'only' | 'included';
}

/** Whether a read can run on any replica, or only on one with every acknowledged write. */
export type ReadAccess = true | 'current';

/** Returns the access for reads. Team memberships are read together with the records and, like grants, must be up to date. */
export function readAccess({
  resources,
}: {
  readonly resources: ReadonlyMap<string, Pick<VisibleResource, 'rows'>>;
}): ReadAccess {
  const scopes = [...resources.values()].flatMap(({ rows = {} }) => Object.values(rows).flat(2));
  return scopes.some(({ condition }) => condition.usesTeam) ? 'current' : true;
}

/** The parts of a resource that determine which records a caller sees. */
type LimitedRows = Pick<VisibleResource, 'definition' | 'rows' | 'trashed'>;

/** Returns whether the caller's references to a resource lead only to some of its records. */
export const limitsReferences = (resource: Pick<LimitedRows, 'rows'> | undefined): boolean =>
  resource !== undefined && referenceLimits(resource.rows?.read ?? []).length > 0;

/**
 * Returns whether references to a resource can lead to records that exist but cannot be assigned, because the caller cannot
 * read them or they are in the trash.
 */
export const checksReferences = (resource: LimitedRows | undefined): boolean =>
  resource !== undefined && (resource.definition.trash !== undefined || limitsReferences(resource));

/**
 * Returns the limits for references to a resource, from the limits for reading its records. Without a grant to read any
 * record, references are not limited. For a key on behalf of a member, this applies to the grants of each separately.
 */
export const referenceLimits = (limits: readonly RecordLimit[]): readonly RecordLimit[] =>
  limits.filter((limit) => limit.length > 0);

const organization = ({ organization }: RowScope) => organization;
/**
 * Returns the user that `me` stands for in scopes. A key acts for a user only if it was created on behalf of a member, not
 * for the administrator who created it.
 */
function member({ caller: { principal } }: CallerScope): string | null {
  const { kind, user, grants } = principal;
  return kind === 'user' || grants.within !== undefined ? user : null;
}

/** Returns an SQL expression for the organization's ID. */
export const organizationOf = (placeholder: Placeholder<RowScope>): string =>
  `${placeholder(organization)}::bigint`;

/** Returns SQL expressions for the user that `me` stands for, or null, and for the members of that user's teams. */
export function callerColumns(placeholder: Placeholder<CallerScope>) {
  const me = () => `${placeholder(member)}::bigint`;
  return { me, team: () => teamSql(organizationOf(placeholder), me()) };
}

/**
 * Returns the condition that limits rows to the caller's organization. On its own, it is only for statements that do
 * not depend on the caller's grants, for example deletes that clear references.
 * @param alias the table's alias; empty if it has none
 */
export const ownRowsSql = (placeholder: Placeholder<RowScope>, alias: string = record): string =>
  `${columnOf(alias, 'organization_id')} = ${organizationOf(placeholder)}`;

/** Returns a column's name, qualified unless the alias is empty. */
const columnOf = (alias: string, name: string): string =>
  alias === '' ? quote(name) : column({ name }, alias);

/**
 * Returns the condition that a record is not in the trash or, for statements that access the trash, that it is. Starts with
 * " and ". Empty if the resource has no trash.
 * @param alias the table's alias
 */
export const trashSql = (
  { definition, trashed }: Pick<LimitedRows, 'definition' | 'trashed'>,
  alias: string = record,
): string =>
  definition.trash === undefined || trashed === 'included'
    ? ''
    : ` and ${columnOf(alias, trashedColumn)} is ${trashed === 'only' ? 'not null' : 'null'}`;

/**
 * Returns the condition that limits rows to those on which the caller can perform an action. Every statement on behalf
 * of a caller must apply this condition to every table that it reads or writes.
 * @param alias the table's alias
 */
export const visibleSql = (
  resource: LimitedRows,
  action: Action,
  placeholder: Placeholder<CallerScope>,
  alias: string = record,
): string => `${ownRowsSql(placeholder, alias)}${visibleLimitSql(resource, action, placeholder, alias)}`;

/**
 * Returns the conditions of {@link visibleSql} that depend on the caller's grants and the trash, each starting with " and ".
 * Empty if all records are visible. A record outside the scopes in which the caller can read does not exist for other
 * actions either, because their responses and errors would reveal it. Listing the trash requires both `list` and `restore`.
 */
export function visibleLimitSql(
  resource: LimitedRows,
  action: Action,
  placeholder: Placeholder<CallerScope>,
  alias: string = record,
): string {
  const limits = scopeSql(resource, action, placeholder, alias);
  const more = isRestrictedByRead(action)
    ? referenceScopeSql(resource, placeholder, alias)
    : action === 'list' && resource.trashed === 'only'
      ? scopeSql(resource, 'restore', placeholder, alias)
      : '';
  return `${trashSql(resource, alias)}${limits}${more === limits ? '' : more}`;
}

const isRestrictedByRead = (action: Action): boolean =>
  action === 'update' || action === 'delete' || action === 'restore';

/** Returns the conditions that a record is visible for an action, without those of other actions. See {@link visibleLimitSql}. */
export const limitSql = (
  resource: LimitedRows,
  action: Action,
  placeholder: Placeholder<CallerScope>,
  alias: string = record,
): string => `${trashSql(resource, alias)}${scopeSql(resource, action, placeholder, alias)}`;

/** Returns the conditions of the scopes to which an action is limited, each starting with " and ". */
function scopeSql(
  { definition, rows }: LimitedRows,
  action: Action,
  placeholder: Placeholder<CallerScope>,
  alias: string = record,
): string {
  const storedValue = (name: string) => columnOf(alias, name);
  return (rows?.[action] ?? [])
    .flatMap((limit) => [
      ...limit.flatMap((scope) => (limit.length === 1 ? indexedSql(definition, scope, storedValue) : [])),
      scopesSql(limit, placeholder, storedValue),
    ])
    .map((condition) => ` and ${condition}`)
    .join('');
}

/**
 * Returns the conditions that limit a reference to records to which the caller's references can lead, each starting with
 * " and ". A reference never leads to a record in the trash.
 */
export const referenceLimitSql = (
  { definition, rows }: LimitedRows,
  placeholder: Placeholder<CallerScope>,
  alias: string,
): string =>
  `${trashSql({ definition }, alias)}${referenceScopeSql({ definition, rows }, placeholder, alias)}`;

/** Returns the conditions of {@link referenceLimitSql} that depend on the caller's grants. */
export const referenceScopeSql = (
  { definition, rows }: Pick<VisibleResource, 'definition'> & { readonly rows?: RowLimits | undefined },
  placeholder: Placeholder<CallerScope>,
  alias: string,
): string =>
  scopeSql({ definition, rows: { read: referenceLimits(rows?.read ?? []) } }, 'read', placeholder, alias);

/** Returns the condition that lets an index find the records of a scope, if the index does not contain whole values. */
function indexedSql(
  definition: ResourceDefinition,
  scope: RecordLimit[number],
  storedValue: (field: string) => string,
): string[] {
  const field = scopeField(definition, scope);
  const value = equality(scope.condition)?.value;
  if (field?.type.equals === undefined || value?.kind !== 'literal' || value.type !== 'text') return [];
  // Filters never find values with an empty key, but the scope's condition does.
  if (field.comparison !== undefined && lookupOf(field.comparison).keyOf(value.text) === '') return [];
  return [field.type.equals(storedValue(field.name), literal(value.text), field)];
}

/** Returns the field whose index finds a scope's records, or undefined if the scope is not a single equality. */
export function scopeField(
  { fields }: ResourceDefinition,
  { condition }: ResourceDefinition['scopes'][number],
): Field | undefined {
  const name = equality(condition)?.field;
  return fields.find((field) => field.name === name && field.type.equals !== undefined);
}

/**
 * Returns the condition that a record is in at least one scope. Without a user, a scope that mentions `me` or `my_team`
 * contains no record.
 * @param storedValue returns an SQL expression for a field's stored value
 */
export function scopesSql(
  scopes: RecordLimit,
  placeholder: Placeholder<CallerScope>,
  storedValue: (field: string) => string,
): string {
  if (scopes.length === 0) return 'false';
  const caller = callerColumns(placeholder);
  const conditions = scopes.map(({ condition }) => {
    const matches = conditionSql(condition, { column: storedValue, ...caller });
    // An equality with a missing user is never true.
    const needsUser = condition.usesCaller && equality(condition) === undefined;
    return needsUser ? `(${caller.me()} is not null and ${matches})` : matches;
  });
  return `(${conditions.join(' or ')})`;
}

/** Prefix of the text that fails to be an integer if a write leaves the caller's scopes. */
const outsidePrefix = 'outside scope';

/**
 * Returns the RETURNING clause of a write. If the written record is not one on which the caller can perform the action,
 * the statement fails, so that the record is not written.
 * @param alias the table's alias; empty if it has none
 */
export function returningSql(
  resource: LimitedRows,
  action: 'create' | 'update',
  placeholder: Placeholder<CallerScope>,
  alias: string = record,
): string {
  const columns = alias === '' ? '*' : `${alias}.*`;
  const conditions = scopeSql(resource, action, placeholder, alias);
  if (conditions === '') return `returning ${columns}`;
  const failure = literal(`${outsidePrefix} ${resource.definition.name} ${action} `);
  return `returning ${columns}, case when true${conditions} then null else ${raisedSql(`${failure} || ${columnOf(alias, 'id')}`)} end as "_inside"`;
}

/** Returns the error for a write that would have left the caller's scopes, or undefined for other failures. */
export function outsideScope(cause: unknown): HttpError | undefined {
  const [resource = '', action = ''] = raisedText(cause, `${outsidePrefix} (\\w+) (\\w+) \\d+`);
  return action === '' ? undefined : errors.outsideScope(resource, action);
}
