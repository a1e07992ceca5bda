import { errors, HttpError } from '../errors.ts';
import { parseOwnJson } from '../fields/index.ts';
import { filterHint } from '../query/index.ts';
import { type Action, allows, everyGrant } from './access.ts';
import type { Body } from './body.ts';
import type { CustomFields } from './custom-fields.ts';
import type { Executor } from './executor.ts';
import type { Conditions, FindOptions, HookRecords, Where } from './hook-types.ts';
import {
  fieldsByName,
  fromHookValues,
  type HookValues,
  parseHookValues,
  toHookValues,
} from './hook-values.ts';
import type { Caller, HookView, InstanceHooks, TextSigner } from './operation.ts';
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

/** A page of records, and the cursor of the next page; undefined on the last page. */
interface Page {
  readonly records: readonly HookValues[];
  readonly next: string | undefined;
}

/** Reads a page of the records of a resource. */
type ReadPage = (resource: string, options: FindOptions, cursor?: string) => Promise<Page>;

/** The function of each access that reads pages. */
const pageReaders = new WeakMap<HookRecords, ReadPage>();

/** Returns the result of a call. A hook can ignore it, and its rejection must not end the process. */
function ignorable<T>(result: Promise<T>): Promise<T> {
  result.catch(() => {});
  return result;
}

/** Returns access whose functions for lists use a function that reads pages. */
function withLists(access: Omit<HookRecords, 'find' | 'pages'>, readPage: ReadPage): HookRecords {
  const records: HookRecords = {
    ...access,
    find: (resource, options = {}) => ignorable(readPage(resource, options).then(({ records }) => records)),
    pages: async function* (resource, options = {}) {
      let cursor: string | undefined;
      do {
        const { records, next } = await readPage(resource, options, cursor);
        yield records;
        cursor = next;
      } while (cursor !== undefined);
    },
  };
  pageReaders.set(records, readPage);
  return records;
}

/** "Signs" the cursors of pages, which do not leave the process. */
const cursors: TextSigner = { sign: () => 'page', verify: (_, signature) => signature === 'page' };

/**
 * Returns access to records that is opened again for each call.
 * @param run opens access and runs a call with it
 * @param reason see {@link HookRecords.asSystem}
 */
export function reopenedRecords(
  run: <T>(call: (records: HookRecords) => Promise<T>) => Promise<T>,
  reason?: string,
): HookRecords {
  const withAccess = <T>(call: (records: HookRecords) => Promise<T>): Promise<T> =>
    ignorable(run((records) => call(reason === undefined ? records : records.asSystem(reason))));
  return withLists(
    {
      get: (...parameters) => withAccess((records) => records.get(...parameters)),
      create: (...parameters) => withAccess((records) => records.create(...parameters)),
      update: (...parameters) => withAccess((records) => records.update(...parameters)),
      delete: (...parameters) => withAccess((records) => records.delete(...parameters)),
      asSystem: (newReason) => reopenedRecords(run, newReason),
    },
    (...parameters) =>
      withAccess(async (records) => {
        const readPage = pageReaders.get(records);
        if (readPage === undefined) throw new Error('access to records must not be copied');
        return readPage(...parameters);
      }),
  );
}

/** Operators that compare a field with a value or a list of values, in order of preference. */
const equalities = ['eq', 'in'] as const;

/** Returns conditions as in the body of a query. Values of fields become conditions that the fields equal them. */
function queryConditions({ definition }: Pick<HookView, 'definition'>, where: Where): Body {
  if ('field' in where && 'op' in where) return fromHookValues(new Map(), { ...where });
  const { all = [], any, not, ...values } = where as Conditions;
  const conditionsOf = (member: Where) => queryConditions({ definition }, member);
  const equalTo = (name: string, value: unknown): HookValues => {
    if (value === null) return { field: name, op: 'is_null', value: true };
    if (value === undefined)
      throw errors.invalidFields([{ field: `where.${name}`, message: `the value of ${name} is undefined` }]);
    const filter = definition.filters.find((candidate) => candidate.name === name);
    if (filter === undefined) {
      const hint = filterHint(definition.filters, name);
      throw errors.invalidFields([
        { field: `where.${name}`, message: `${name} has no filter. ${hint}`, hint },
      ]);
    }
    const operators = filter.parameters.map(({ operator }) => operator);
    const op = equalities.find((operator) => operators.includes(operator));
    if (op !== undefined) return { field: name, op, value };
    throw errors.invalidFields([
      {
        field: `where.${name}`,
        message: `${name} cannot be compared with a value. Its operators are ${operators.join(', ')}: write { field: '${name}', op: '${operators[0]}', value: … }`,
      },
    ]);
  };
  const members = [
    ...Object.entries(values).map(([name, value]) => fromHookValues(new Map(), equalTo(name, value))),
    ...all.map(conditionsOf),
    ...(any === undefined ? [] : [{ any: any.map(conditionsOf) }]),
    ...(not === undefined ? [] : [{ not: conditionsOf(not) }]),
  ];
  const [first] = members;
  return members.length === 1 && first !== undefined ? first : { all: members };
}

/** Returns access to records for a hook or an action. */
export function hookRecords({ module, caller, customFields, run, hooks, isSystem }: HookAccess): HookRecords {
  const { principal } = caller;
  const viewFor = (resource: string, action: Action): HookView => {
    const view = isSystem ? hooks.systemView(resource) : hooks.view(resource, principal.grants);
    if (!allows(principal.grants, view.stored, action)) throw errors.forbidden(resource, action);
    return view;
  };
  const call = <T>(work: (executor: Executor) => Promise<T>): Promise<T> =>
    ignorable(
      run(work).catch((cause: unknown) => {
        // Errors can contain what the request's caller cannot see.
        throw isSystem && cause instanceof HttpError && cause.status < 500
          ? new SystemCallError(cause)
          : cause;
      }),
    );
  const fieldsOf = ({ definition }: HookView) => fieldsByName(definition.fields);
  const recordOf = (view: HookView, { json }: Pick<RecordResult, 'json'>): HookValues =>
    parseHookValues(fieldsOf(view), String(json));
  const bodyOf = (view: HookView, values: HookValues): Body => fromHookValues(fieldsOf(view), values);
  const readPage: ReadPage = (resource, { where, sort, q }, cursor) =>
    call(async (executor) => {
      const view = viewFor(resource, 'list');
      const body = {
        ...(where !== undefined && Object.keys(where).length > 0 && { where: queryConditions(view, where) }),
        ...(sort !== undefined && { sort }),
        ...(q !== undefined && { q }),
        ...(cursor !== undefined && { cursor }),
      };
      const input = { caller, body, strict: true, customFields, signing: cursors };
      const { json, next } = await view.query(executor, input);
      const records = parseOwnJson(`[${String(json)}]`) as readonly Body[];
      const fields = fieldsOf(view);
      return { records: records.map((record) => toHookValues(fields, record)), next };
    });
  const access: Parameters<typeof withLists>[0] = {
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
        await viewFor(resource, 'delete').remove(executor, { caller, id: String(id), customFields });
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
  return withLists(access, readPage);
}
