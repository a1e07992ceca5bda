import type { Resource, ResourceView } from '../../../engine/compile/index.ts';
import type { Database } from '../../../engine/database/index.ts';
import { errors } from '../../../engine/errors.ts';
import { isRowId } from '../../../engine/fields/index.ts';
import {
  type Action,
  allows,
  type CallerScope,
  compileFindLock,
  type FindLock,
  groupObject,
  ownGrants,
  type Principal,
  type RecordLock,
  recordLimits,
  visibleLimitSql,
  visibleSql,
} from '../../../engine/records/index.ts';
import { type Placeholder, type Prepared, prepare, quote, record } from '../../../engine/sql/index.ts';

/** Whether a caller can perform an action, and the reason. */
export interface ActionPermission {
  readonly allowed: boolean;
  /** Scopes to which the caller's grants limit the action. A record must be in at least one. Absent without a limit. */
  readonly scopes?: readonly string[];
  /** For a key on behalf of a member: scopes to which the member's grants also limit the action. */
  readonly within?: readonly string[];
  /** The grant that would allow the action, if it is not allowed. */
  readonly grant?: string;
  /** Why the action is not allowed on a locked record, whatever the caller's grants are. */
  readonly reason?: string;
}

/** A field that a caller cannot read or write, and the grant that would allow it. */
interface MissingField {
  readonly field: string;
  readonly grant: string;
}

/** A caller's permissions on a resource, or on one of its records. */
export interface ResourcePermissions {
  /** The permission for each action. Only resources with a trash have `restore`. */
  readonly actions: Readonly<
    Record<Exclude<Action, 'restore'>, ActionPermission> & { readonly restore?: ActionPermission }
  >;
  /** The permission for each action of a module that has a grant of its own. Absent if the resource has no such action. */
  readonly own?: Readonly<Record<string, ActionPermission>>;
  /** Why the record cannot be changed, except by the transitions of writable fields. Absent if it is not locked. */
  readonly locked?: string;
  readonly fields: {
    readonly readable: readonly string[];
    readonly writable: readonly string[];
    readonly missing: readonly MissingField[];
  };
}

/** The caller, its organization and a record's ID. */
interface RecordScope extends CallerScope {
  readonly id: string;
}

const recordId = ({ id }: RecordScope) => id;

/** Actions on an existing record. */
const recordActions = ['list', 'read', 'update', 'delete'] as const satisfies readonly Action[];

const statements = new WeakMap<ResourceView, Prepared<RecordScope>>();

/**
 * Returns the statement that evaluates the caller's scopes on a record for {@link recordActions}. It returns no row if
 * the caller cannot read the record.
 */
function statementFor(view: ResourceView): Prepared<RecordScope> {
  let statement = statements.get(view);
  if (statement === undefined) {
    const { context } = view;
    statement = prepare<RecordScope>('', 'read', ($) => {
      const isInside = recordActions.map(
        (action) => `coalesce(true${visibleLimitSql(context, action, $)}, false)::text`,
      );
      return `select ${isInside.join(', ')} ${fromRecord(view, 'read', $)}`;
    });
    statements.set(view, statement);
  }
  return statement;
}

/** Returns the FROM and WHERE clauses for a record on which the caller can perform an action. */
const fromRecord = ({ context, name }: ResourceView, action: Action, $: Placeholder<RecordScope>): string =>
  `from ${quote(name)} ${record} where ${visibleSql(action === 'restore' ? { ...context, trashed: 'only' } : context, action, $)} and ${record}."id" = ${$(recordId)}::bigint`;

/**
 * Returns the actions that the caller's scopes allow on a record.
 * @throws HttpError 404 if the caller cannot read the record
 */
export async function actionsInScope(
  database: Database,
  { definition, viewFor }: Resource,
  principal: Principal,
  id: string,
): Promise<ReadonlySet<Action>> {
  const missing = () => errors.recordNotFound(definition.singular);
  if (!isRowId(id) || !allows(principal.grants, definition, 'read')) throw missing();
  const { organization } = principal;
  const statement = statementFor(viewFor(principal.grants)).bind({ organization, caller: { principal }, id });
  const [row] = (await database.run(statement)) as readonly (readonly (string | null)[])[];
  if (row === undefined) throw missing();
  return new Set(recordActions.filter((_, index) => row[index] === 'true'));
}

const locks = new WeakMap<ResourceView, FindLock>();

/** Returns the lock of a record that the caller can read, or undefined if the record is not locked. */
export async function lockOn(
  database: Database,
  { viewFor }: Resource,
  principal: Principal,
  id: string,
): Promise<RecordLock | undefined> {
  const view = viewFor(principal.grants);
  let findLock = locks.get(view);
  if (findLock === undefined) {
    findLock = compileFindLock(view.context);
    locks.set(view, findLock);
  }
  return findLock(database, { caller: { principal, requestId: '' }, id });
}

/** Returns whether a record exists on which the caller's grants allow an action. */
export async function isInScope(
  database: Database,
  { viewFor }: Resource,
  principal: Principal,
  { action, id }: { readonly action: Action; readonly id: string },
): Promise<boolean> {
  if (!isRowId(id)) return false;
  const view = viewFor(principal.grants);
  const statement = prepare<RecordScope>('', 'read', ($) => `select 'true' ${fromRecord(view, action, $)}`);
  const { organization } = principal;
  const rows = await database.run(statement.bind({ organization, caller: { principal }, id }));
  return rows.length > 0;
}

/**
 * Returns the caller's permissions on a resource.
 * @param inScope if the permissions are those on a record, the actions that the caller's scopes allow on it
 * @param lock the record's lock, if it is locked
 */
export function permissionsOn(
  { definition, viewFor, actions: moduleActions }: Resource,
  { grants }: Principal,
  inScope?: ReadonlySet<Action>,
  lock?: RecordLock,
): ResourcePermissions {
  const permission = (action: Action): ActionPermission => {
    const isExcluded =
      inScope !== undefined && !['create', 'restore'].includes(action) && !inScope.has(action);
    const isGranted = allows(grants, definition, action) && !isExcluded;
    const isLocked =
      lock !== undefined && (action === 'delete' || (action === 'update' && lock.changeable.length === 0));
    const allowed = isGranted && !isLocked;
    const limits = recordLimits(grants, definition, action).filter((limit) => limit.length > 0);
    const [scopes, within] = limits.map((limit) => limit.map(({ name }) => name));
    return {
      allowed,
      ...(scopes && { scopes }),
      ...(within && { within }),
      ...(!isGranted && { grant: `${definition.name}:${action}` }),
      ...(isGranted && isLocked && { reason: lock.error.message }),
    };
  };
  const actions = {
    list: permission('list'),
    read: permission('read'),
    create: permission('create'),
    update: permission('update'),
    delete: permission('delete'),
    ...(definition.trash !== undefined && { restore: permission('restore') }),
  };
  const own = ownGrants(moduleActions).map((name) => {
    const allowed = allows(grants, definition, name);
    return [name, { allowed, ...(!allowed && { grant: `${definition.name}:${name}` }) }] as const;
  });
  const canRead = actions.list.allowed || actions.read.allowed;
  const canWrite = actions.update.allowed || (inScope === undefined && actions.create.allowed);
  const visible = new Map(viewFor(grants).definition.fields.map((field) => [field.name, field]));
  const fields = [...visible.values()];
  return {
    actions,
    ...(own.length > 0 && { own: Object.fromEntries(own) }),
    ...(lock && { locked: lock.error.message }),
    fields: {
      readable: canRead ? fields.map(({ name }) => name) : [],
      writable: canWrite
        ? fields
            .filter(({ name, readOnly }) => !readOnly && lock?.changeable.includes(name) !== false)
            .map(({ name }) => name)
        : [],
      missing: definition.fields.flatMap(({ name, group, readOnly }) => {
        if (group === undefined) return [];
        const object = groupObject(definition.name, group);
        const field = visible.get(name);
        if (field === undefined) return [{ field: name, grant: `${object}:read` }];
        return field.readOnly && !readOnly ? [{ field: name, grant: `${object}:update` }] : [];
      }),
    },
  };
}
