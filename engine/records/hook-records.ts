import { errors, HttpError } from '../errors.ts';
import { parseExactJson } from '../fields/index.ts';
import { type Action, allows, everyGrant } from './access.ts';
import type { Body } from './body.ts';
import type { CustomFields } from './custom-fields.ts';
import type { Executor } from './executor.ts';
import type { HookRecords } from './hook-types.ts';
import {
  fieldsByName,
  fromHookValues,
  type HookValues,
  parseHookValues,
  toHookValues,
} from './hook-values.ts';
import type { Caller, HookView, InstanceHooks } from './operation.ts';
import type { RecordResult } from './results.ts';

/** For whom and where a hook accesses records. */
interface HookAccess {
  /** Name of the module. */
  readonly module: string;
  readonly caller: Caller;
  readonly customFields?: CustomFields | undefined;
  /** Runs a call. In a transaction, calls run one after another, and what a failed call wrote is undone. */
  readonly run: <T>(call: (executor: Executor) => Promise<T>) => Promise<T>;
  readonly hooks: InstanceHooks;
  /** Whether the caller's limits do not apply. */
  readonly isSystem?: true;
}

/** The error of a call with system access, which the hook can handle. If it does not, the hook has failed. */
export class SystemCallError extends Error {
  override readonly name = 'SystemCallError';
  readonly status: number;
  readonly code: string;
  constructor(cause: HttpError) {
    super(cause.message, { cause });
    this.status = cause.status;
    this.code = cause.code;
  }
}

/** Returns access to records for a hook or an action. */
export function hookRecords({ module, caller, customFields, run, hooks, isSystem }: HookAccess): HookRecords {
  const { principal } = caller;
  const viewFor = (resource: string, action: Action): HookView => {
    const view = isSystem ? hooks.systemView(resource) : hooks.view(resource, principal.grants);
    if (!allows(principal.grants, view.stored, action)) throw errors.forbidden(resource, action);
    return view;
  };
  /** Runs a call. A hook can ignore its promise, whose rejection must not end the process. */
  const call = <T>(work: (executor: Executor) => Promise<T>): Promise<T> => {
    const result = run(work).catch((cause: unknown) => {
      // Errors can contain what the request's caller cannot see.
      throw isSystem && cause instanceof HttpError && cause.status < 500 ? new SystemCallError(cause) : cause;
    });
    result.catch(() => {});
    return result;
  };
  const fieldsOf = ({ definition }: HookView) => fieldsByName(definition.fields);
  const recordOf = (view: HookView, { json }: Pick<RecordResult, 'json'>): HookValues =>
    parseHookValues(fieldsOf(view), String(json));
  const bodyOf = (view: HookView, values: HookValues): Body => fromHookValues(fieldsOf(view), values);
  return {
    get: (resource, id) =>
      call(async (executor) => {
        const view = viewFor(resource, 'read');
        try {
          return recordOf(view, await view.read(executor, { caller, id: String(id), customFields }));
        } catch (cause) {
          if (cause instanceof HttpError && cause.status === 404) return undefined;
          throw cause;
        }
      }),
    find: (resource, { where, sort, q } = {}) =>
      call(async (executor) => {
        const view = viewFor(resource, 'list');
        const body = {
          ...(where !== undefined && { where: fromHookValues(new Map(), where) }),
          ...(sort !== undefined && { sort }),
          ...(q !== undefined && { q }),
        };
        const { json } = await view.query(executor, { caller, body, strict: true, customFields });
        const records = parseExactJson(`[${String(json)}]`, Number.POSITIVE_INFINITY) as readonly Body[];
        const fields = fieldsOf(view);
        return records.map((record) => toHookValues(fields, record));
      }),
    create: (resource, values) =>
      call(async (executor) => {
        const view = viewFor(resource, 'create');
        const body = bodyOf(view, values);
        return recordOf(view, await view.create(executor, { caller, body, customFields }));
      }),
    update: (resource, id, values) =>
      call(async (executor) => {
        const view = viewFor(resource, 'update');
        const body = bodyOf(view, values);
        return recordOf(view, await view.patch(executor, { caller, id: String(id), body, customFields }));
      }),
    delete: (resource, id) =>
      call(async (executor) => {
        await viewFor(resource, 'delete').remove(executor, { caller, id: String(id) });
      }),
    asSystem: (reason) => {
      const name = `${principal.name ?? principal.kind} (${module}: ${reason})`;
      return hookRecords({
        module,
        customFields,
        run,
        hooks,
        isSystem: true,
        caller: { ...caller, principal: { ...principal, name, grants: everyGrant } },
      });
    },
  };
}
