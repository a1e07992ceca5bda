import type { Database } from '../database/index.ts';
import type { HttpError } from '../errors.ts';
import { cell, column, type Prepared, prepare, quote, record, rowDecoder } from '../sql/index.ts';
import {
  changeableFields,
  lockedError,
  lockedSql,
  lockingReferences,
  lockSetting,
  unlockedSql,
} from './lock-triggers.ts';
import type { Caller, OperationContext, OperationPlan } from './operation.ts';
import { organizationOf } from './rows.ts';
import { type ById, byIdSql, statementName, tableOf } from './statements.ts';

/** Prevents the children of a record from being written if the record is locked, and otherwise allows it for the rest of the transaction. */
export interface ChildrenLock {
  /** Locks a record. It returns a row if the caller can update the record. */
  readonly statement: Prepared<OperationPlan & ById>;
  /** @throws HttpError 409 if the record is locked */
  readonly check: (rows: readonly (readonly unknown[])[]) => void;
  /** Allows a transaction to write the children of a record that it has created. */
  readonly created: Prepared<OperationPlan & ById>;
}

const decodeLocked = rowDecoder({ isLocked: cell.flag });

/** Compiles the check of a record whose children a request writes. Returns undefined if its resource has no locks. */
export function compileChildrenLock(context: OperationContext): ChildrenLock | undefined {
  const { stored } = context;
  if (stored.locked === undefined) return undefined;
  const unlock = `set_config('${lockSetting}', ${unlockedSql(stored.name, record)}, true)`;
  return {
    statement: prepare(
      '',
      'batch',
      ($) =>
        `select (case when ${lockedSql(stored, record)} then true else ${unlock} is null end)::text from ${tableOf(context)} ${record} where ${byIdSql(context, 'update', $)} for no key update of ${record}`,
    ),
    check: ([row]) => {
      if (row !== undefined && decodeLocked(row as (string | null)[]).isLocked) throw lockedError(context);
    },
    created: prepare(
      '',
      'batch',
      ($) =>
        `select ${unlock} from ${quote(stored.name)} ${record} where ${record}."organization_id" = ${organizationOf($)} and ${record}."id" = ${$(({ id }) => id)}::bigint`,
    ),
  };
}

/** Why a record is locked, and what can still change. */
export interface RecordLock {
  readonly error: HttpError;
  /** Names of the fields that can change along their transitions. */
  readonly changeable: readonly string[];
}

/** Returns the lock of a record, or undefined if it is not locked or the caller cannot read it. */
export type FindLock = (
  database: Database,
  input: { readonly caller: Caller; readonly id: string },
) => Promise<RecordLock | undefined>;

/**
 * Compiles the search for the lock of a record, or of a record to whose writable children it belongs, for pages and
 * permissions.
 */
export function compileFindLock(context: OperationContext): FindLock {
  const { stored, definition } = context;
  const owners = [...context.resources.values()].flatMap((resource) => {
    const references = lockingReferences(resource.stored, stored);
    return references.length === 0 ? [] : [{ resource, references }];
  });
  if (stored.locked === undefined && owners.length === 0) return async () => undefined;
  const fields = changeableFields(definition);
  const { bind } = prepare<OperationPlan & ById>(statementName(context, 'lock_of'), 'read', ($) => {
    const where = byIdSql(context, 'read', $);
    const isOwnerLocked = owners.map(({ resource, references }) => {
      const isReferred = references.map((by) => `_p."id" = ${column({ name: by })}`).join(' or ');
      return `(exists (select from ${quote(resource.stored.name)} _p where _p."organization_id" = ${record}."organization_id" and (${isReferred}) and ${lockedSql(resource.stored, '_p')}))::text`;
    });
    const columns = [
      `coalesce(${lockedSql(stored, record)}, false)::text`,
      ...isOwnerLocked,
      ...fields.map((field) => column(field)),
    ];
    return `select ${columns.join(', ')} from ${tableOf(context)} ${record} where ${where}`;
  });
  return async (database, { caller, id }) => {
    const { organization } = caller.principal;
    const [row] = await database.run(bind({ organization, caller, id }));
    if (row === undefined) return undefined;
    const owner = owners.find((_, index) => row[1 + index] === 'true');
    if (owner !== undefined) return { error: lockedError(owner.resource), changeable: [] };
    if (row[0] !== 'true') return undefined;
    return {
      error: lockedError(context),
      changeable: fields
        .filter(({ transitions }, index) => {
          const value = row[1 + owners.length + index] ?? '';
          const next = value === '' ? transitions?.initial : transitions?.next.get(String(value));
          return next !== undefined && next.length > 0;
        })
        .map(({ name }) => name),
    };
  };
}
