import { Readable } from 'node:stream';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import type { Resource, ResourceView } from '../../../engine/compile/index.ts';
import type { Database } from '../../../engine/database/index.ts';
import { errors } from '../../../engine/errors.ts';
import { fieldTypes } from '../../../engine/fields/index.ts';
import { assertWritable, limitsChanged } from '../../../engine/http/index.ts';
import type { Query } from '../../../engine/query/index.ts';
import {
  type Action,
  allows,
  type Body,
  type BulkResult,
  type ChangeValues,
  changeValues,
  compileExcerpts,
  compileFindLock,
  compileLock,
  compilePurge,
  compileTransitionScopes,
  customFieldsIn,
  type DeletedResult,
  exportStream,
  findDependents,
  type Grants,
  type ImportSummary,
  idempotencyOf,
  idOfJob,
  inTransaction,
  type ModuleAction,
  type Principal,
  pageValues,
  queueJob,
  type RecordLock,
  type RecordResult,
  type RecordValues,
  recordValues,
  runOperation,
  type TextSigner,
} from '../../../engine/records/index.ts';
import type { Statement } from '../../../engine/sql/index.ts';
import { userPrincipal } from '../../access/identity/index.ts';
import { cancelVisibleJob, findJob, type VisibleJob } from '../../jobs/index.ts';
import type { CurrentMember } from '../shell/index.ts';
import { changeWithOwnValues, nestedBody, nestedQuery, withOwnValues } from './custom-values.ts';
import {
  actionsOfImport,
  csvSource,
  type ImportRequest,
  importInputJson,
  importJob,
} from './import-request.ts';
import { currentViewer } from './see-as.ts';

/** A record's values by field name. */
export type DataRecord = RecordValues;

/** A record and its entity tag, which is empty if the query has a projection. Truncated texts do not change the tag. */
interface TaggedRecord {
  readonly record: DataRecord;
  readonly tag: string;
}

/** A page of items and the next page's cursor, if there is one. */
interface Page<Item> {
  readonly items: readonly Item[];
  readonly next?: string | undefined;
}

/** A page of records. */
interface RecordPage extends Page<DataRecord> {
  /** The page's number, starting at 1. */
  readonly page: number;
  /** The previous page's cursor. Undefined on the first page, and on a page requested by its number. */
  readonly previous?: string | undefined;
}

/**
 * Maximum length, in characters, of the values read for lists and histories (`many`) and for a record's page
 * (`one`).
 */
export const excerptLengths = { many: 1000, one: 4000 } as const;

/**
 * The API's operations, called on behalf of a member, with the same permissions, validation, errors and
 * change log. `list`, `read` and `history` are for display: they truncate longer values one character beyond
 * {@link excerptLengths}.
 */
export interface Calls {
  readonly allows: (resource: ResourceView, action: string) => boolean;
  /** Returns a page of records, and the exact or estimated number of records on all pages. */
  readonly list: (resource: ResourceView, query: Query) => Promise<RecordPage & { readonly total: number }>;
  /** Returns a page of records, without counting all of them. */
  readonly page: (resource: ResourceView, query: Query) => Promise<RecordPage>;
  readonly read: (resource: ResourceView, id: string, query?: Query) => Promise<TaggedRecord>;
  /** Reads a record with its full values. */
  readonly readWhole: (resource: ResourceView, id: string, query?: Query) => Promise<TaggedRecord>;
  /** Returns the statement that locks a record for a transaction if the member can update it. */
  readonly lock: (resource: ResourceView, id: string) => Statement;
  /** Returns a page of changes to a record, newest first. @param cursor empty for the first page */
  readonly history: (resource: ResourceView, id: string, cursor: string) => Promise<Page<ChangeValues>>;
  /** Returns a change with its full values. @throws HttpError 404 if the position does not exist */
  readonly change: (resource: ResourceView, id: string, position: string) => Promise<ChangeValues>;
  /**
   * Creates a record once per key. Also returns whether an earlier call had already created it.
   * @param sequenceValues values from sequences that a deleted record keeps when it is created again
   */
  readonly create: (
    resource: ResourceView,
    key: string,
    body: Body,
    sequenceValues?: Readonly<Record<string, string>>,
  ) => Promise<{ readonly record: DataRecord; readonly isReplayed: boolean }>;
  /** Updates a record with this entity tag. @throws HttpError 412 if the record's tag is different */
  readonly patch: (resource: ResourceView, id: string, tag: string, body: Body) => Promise<DataRecord>;
  /** Writes the same values to records. Returns the IDs of the updated records, and the number of the others. */
  readonly patchMany: (
    resource: ResourceView,
    ids: readonly string[],
    body: Body,
  ) => Promise<{ readonly updated: readonly string[]; readonly failed: number }>;
  /** Deletes a record with this entity tag. @throws HttpError 412 if the record's tag is different */
  readonly remove: (resource: ResourceView, id: string, tag: string) => Promise<DeletedResult>;
  /** Returns whether a delete of a record would also delete other records. */
  readonly hasDependents: (resource: ResourceView, id: string) => Promise<boolean>;
  /** Returns the names of the scopes to which transitions are limited and in which the member finds a record. */
  readonly transitionScopes: (resource: ResourceView, id: string) => Promise<ReadonlySet<string>>;
  /** Returns why a record is locked, or undefined if it is not. */
  readonly lockOn: (resource: ResourceView, id: string) => Promise<RecordLock | undefined>;
  /** Merges a record into one with this entity tag. @throws HttpError 412 if that record's tag is different */
  readonly merge: (resource: ResourceView, id: string, from: string, tag: string) => Promise<DataRecord>;
  /** Undoes the merge of another record into a record. */
  readonly unmerge: (resource: ResourceView, id: string, from: string) => Promise<DataRecord>;
  /**
   * Performs an action of a module once per key or, if it is a job, queues it. Returns the result or the job, as JSON.
   * @param input `id` is the record's ID, for actions of a record
   */
  readonly act: (
    resource: ResourceView,
    action: ModuleAction,
    input: { readonly id: string | undefined; readonly body: Body; readonly key: string },
  ) => Promise<string>;
  /** Returns a job. @throws HttpError 404 if it does not exist, or the member cannot see it */
  readonly job: (id: string) => Promise<VisibleJob>;
  /** Cancels a job. @throws HttpError in the same cases as {@link Calls.job} */
  readonly cancelJob: (id: string) => Promise<void>;
  /** Restores a record from the trash. */
  readonly restore: (resource: ResourceView, id: string) => Promise<DataRecord>;
  /** Deletes a record from the trash. */
  readonly purge: (resource: ResourceView, id: string) => Promise<DeletedResult>;
  /** Deletes records. Returns the IDs of the deleted records, and the number of records that were kept. */
  readonly removeMany: (
    resource: ResourceView,
    ids: readonly string[],
  ) => Promise<{ readonly deleted: readonly string[]; readonly failed: number }>;
  /**
   * Deletes all records that match filters, or none. Without `confirm`, only counts them and returns it.
   * @throws HttpError 409 if their number has changed, 400 if some of them cannot be deleted
   */
  readonly removeMatching: (resource: ResourceView, filters: Query, confirm?: string) => Promise<BulkResult>;
  /** Returns all records that match a list's filters, as CSV. */
  readonly csv: (resource: ResourceView, query: Query) => Promise<AsyncIterable<Buffer>>;
  /** Checks a file without writing anything. */
  readonly checkImport: (resource: ResourceView, file: ImportRequest) => Promise<ImportSummary>;
  /**
   * Queues the import of a file. Returns the job's ID.
   * @throws HttpError 429 if too many jobs are queued
   */
  readonly startImport: (resource: ResourceView, file: ImportRequest) => Promise<string>;
}

/** Returns a function that compiles something for a resource once. */
function perContext<T>(compile: (context: ResourceView['context']) => T): (resource: ResourceView) => T {
  const compiled = new WeakMap<ResourceView['context'], { readonly result: T }>();
  return ({ context }) => {
    const entry = compiled.get(context) ?? { result: compile(context) };
    compiled.set(context, entry);
    return entry.result;
  };
}

/** Prepares the resources' operations. */
export function prepareCalls(
  app: FastifyInstance,
  {
    database,
    resources,
    signing,
  }: { readonly database: Database; readonly resources: readonly Resource[]; readonly signing: TextSigner },
): (request: FastifyRequest, member: CurrentMember) => Calls {
  const viewOf = (grants: Grants) => resources[0]?.viewFor(grants).context.view ?? '';
  const purgeOf = perContext(compilePurge);
  const transitionScopesOf = perContext(compileTransitionScopes);
  const findLockOf = perContext(compileFindLock);
  const dependentsOf = perContext(findDependents);
  const lockOf = perContext((context) => compileLock(context, 'update'));
  const excerptsOf = perContext((context) =>
    compileExcerpts(context, { many: excerptLengths.many + 1, one: excerptLengths.one + 1 }),
  );
  return (request, member) => {
    const { grants } = member.membership;
    const caller = { principal: principalOf(member), requestId: request.id };
    const permit = (resource: ResourceView, action: string) => {
      if (!allows(grants, resource.context.stored, action)) throw errors.forbidden(resource.name, action);
    };
    /**
     * Returns a check that long operations repeat, because the session can end and grants can change in the meantime.
     */
    const assertAllowed = (resource: ResourceView, actions: readonly Action[]) => async () => {
      if (actions.some((action) => action !== 'list')) assertWritable(app);
      request.person = await app.identify(request);
      const { grants: currentGrants } = (await currentViewer(database, request)).member.membership;
      for (const action of actions)
        if (!allows(currentGrants, resource.context.stored, action))
          throw errors.forbidden(resource.name, action);
      if (viewOf(currentGrants) !== resource.context.view) throw limitsChanged();
    };
    const customFields = (resource: ResourceView) => customFieldsIn(database, resource, caller);
    const listPage = async (
      resource: ResourceView,
      query: Query,
      more: { readonly counting?: 'estimated' } = {},
    ) => {
      permit(resource, 'list');
      const page = await excerptsOf(resource).list(database, {
        ...{ caller, query: nestedQuery(resource, query), signing, ...more },
        customFields: await customFields(resource),
      });
      const items = pageValues(page).map((record) => withOwnValues(resource, record));
      const { previous, next, total = 0 } = page;
      return { items, page: Number(page.page), previous, next, total };
    };
    /** Merges another record into a record, or undoes this. */
    const pairOf = async (
      operation: 'merge' | 'unmerge',
      resource: ResourceView,
      id: string,
      from: string,
      more: { readonly conditions?: { readonly match: readonly string[] } } = {},
    ): Promise<DataRecord> => {
      permit(resource, 'update');
      const body = { from: fieldTypes.int64.form.parse(from) };
      const input = { caller, id, body, customFields: await customFields(resource), ...more };
      const result = await runOperation(database, resource.operations[operation], input);
      return withOwnValues(resource, recordValues(result));
    };
    /** Returns the plan that checks a file. @throws HttpError 403 if the member cannot import it */
    const planImport = async (resource: ResourceView, { match, delimiter, columns }: ImportRequest) => {
      permit(resource, 'create');
      const upload = resource.uploads.import;
      const plan = upload.plan({
        ...{ caller, format: 'csv', isDryRun: true, match, delimiter, columns },
        customFields: await customFields(resource),
      });
      return { upload, plan };
    };
    return {
      allows: (resource, action) => allows(grants, resource.context.stored, action),
      list: (resource, query) => listPage(resource, query, { counting: 'estimated' }),
      page: (resource, query) => listPage(resource, query),
      read: async (resource, id, query = {}) => {
        permit(resource, 'read');
        const input = { caller, id, query: nestedQuery(resource, query) };
        return tagged(resource, await excerptsOf(resource).read(database, input));
      },
      readWhole: async (resource, id, query = {}) => {
        permit(resource, 'read');
        const input = { caller, id, query: nestedQuery(resource, query) };
        return tagged(resource, await runOperation(database, resource.operations.read, input));
      },
      lock: (resource, id) => {
        permit(resource, 'update');
        return lockOf(resource)({ caller, id });
      },
      history: async (resource, id, cursor) => {
        permit(resource, 'read');
        const query = cursor === '' ? {} : { cursor };
        const history = await excerptsOf(resource).history(database, { caller, id, query, signing });
        return {
          items: changeValues(history).map((change) => changeWithOwnValues(resource, change)),
          next: history.next,
        };
      },
      change: async (resource, id, position) => {
        permit(resource, 'read');
        const [change] = changeValues(await excerptsOf(resource).change(database, { caller, id, position }));
        if (change === undefined) throw errors.notFound();
        return changeWithOwnValues(resource, change);
      },
      create: async (resource, key, body, sequenceValues) => {
        permit(resource, 'create');
        const idempotency = idempotencyOf(key, JSON.stringify(body));
        const result = await runOperation(database, resource.operations.create, {
          caller,
          body: nestedBody(resource, body),
          idempotency,
          sequenceValues,
          customFields: await customFields(resource),
        });
        const record = withOwnValues(resource, recordValues(result));
        return { record, isReplayed: result.isReplayed };
      },
      patch: async (resource, id, tag, body) => {
        permit(resource, 'update');
        const input = {
          ...{ caller, id, body: nestedBody(resource, body), conditions: { match: [tag] } },
          customFields: await customFields(resource),
        };
        const result = await runOperation(database, resource.operations.patch, input);
        return withOwnValues(resource, recordValues(result));
      },
      patchMany: async (resource, ids, body) => {
        permit(resource, 'update');
        const values = nestedBody(resource, body);
        const records = ids.map((id) => ({ ...values, id: fieldTypes.int64.form.parse(id) }));
        const input = {
          ...{ caller, body: { records, on_error: 'continue' } },
          customFields: await customFields(resource),
        };
        const { json } = await runOperation(database, resource.operations.patchBatch, input);
        const { results } = JSON.parse(String(json)) as { results: readonly { status: number }[] };
        const updated = ids.filter((_, index) => results[index]?.status === 200);
        return { updated, failed: ids.length - updated.length };
      },
      remove: async (resource, id, tag) => {
        permit(resource, 'delete');
        return runOperation(database, resource.operations.remove, {
          caller,
          id,
          conditions: { match: [tag] },
          customFields: await customFields(resource),
        });
      },
      hasDependents: async (resource, id) => {
        const search = dependentsOf(resource);
        if (search === undefined) return false;
        const { organization } = caller.principal;
        const rows = await database.run(search.bind({ organization, caller, ids: [id] }), {
          organization,
          access: 'read',
        });
        return rows.some(([name, dependent]) => name !== resource.name || dependent !== id);
      },
      transitionScopes: (resource, id) => transitionScopesOf(resource)(database, { caller, id }),
      lockOn: (resource, id) => findLockOf(resource)(database, { caller, id }),
      merge: (resource, id, from, tag) =>
        pairOf('merge', resource, id, from, { conditions: { match: [tag] } }),
      unmerge: (resource, id, from) => pairOf('unmerge', resource, id, from),
      act: async (resource, { module, name, grant }, { id, body, key }) => {
        permit(resource, grant);
        const { json } = await resource.actionNamed(module, name).run(database, {
          ...{ caller, body, ...(id !== undefined && { id }) },
          idempotency: idempotencyOf(key, JSON.stringify(body)),
          customFields: await customFields(resource),
        });
        return json;
      },
      job: (id) => findJob(app.jobs, caller, id),
      cancelJob: async (id) => {
        await cancelVisibleJob(app.jobs, caller, id);
      },
      restore: async (resource, id) => {
        permit(resource, 'restore');
        const { restore } = resource.operations;
        if (restore === undefined) throw errors.notFound();
        const input = { caller, id, customFields: await customFields(resource) };
        return withOwnValues(resource, recordValues(await runOperation(database, restore, input)));
      },
      purge: async (resource, id) => {
        permit(resource, 'delete');
        permit(resource, 'restore');
        if (resource.definition.trash === undefined) throw errors.notFound();
        return runOperation(database, purgeOf(resource), { caller, id });
      },
      removeMany: async (resource, ids) => {
        permit(resource, 'delete');
        const body = { ids: ids.map((id) => fieldTypes.int64.form.parse(id)), on_error: 'continue' };
        const input = { caller, body, customFields: await customFields(resource) };
        const { json } = await runOperation(database, resource.operations.removeBatch, input);
        const { results } = JSON.parse(String(json)) as { results: readonly { status: number }[] };
        const deleted = ids.filter((_, index) => results[index]?.status === 200);
        return { deleted, failed: ids.length - deleted.length };
      },
      removeMatching: async (resource, filters, confirm) => {
        permit(resource, 'delete');
        return runOperation(database, resource.operations.bulkRemove, {
          ...{ caller, body: {}, signing, acceptsAll: true },
          query: { ...filters, ...(confirm !== undefined && { confirm }) },
          customFields: await customFields(resource),
        });
      },
      csv: async (resource, query) => {
        permit(resource, 'list');
        const operation = resource.operations.list.export;
        if (operation === undefined) throw errors.notFound();
        const mayList = assertAllowed(resource, ['list']);
        const plan = operation.plan({ caller, query, customFields: await customFields(resource) });
        request.assertAllowed = mayList;
        if (request.method === 'HEAD') return Readable.from([]);
        return exportStream(database, operation, plan, 'csv', mayList);
      },
      checkImport: async (resource, file) => {
        const { upload, plan } = await planImport(resource, file);
        return upload.run(database, plan, csvSource(file), {
          assertAllowed: assertAllowed(resource, actionsOfImport(file)),
        });
      },
      startImport: async (resource, file) => {
        const { name, context } = resource;
        await planImport(resource, file);
        const { organization } = caller.principal;
        const job = { resource: name, action: importJob, id: undefined, input: importInputJson(file) };
        const json = await inTransaction(database, caller, 0, (executor) =>
          queueJob(executor, { organization, caller, ...job }),
        );
        context.hooks.observer.jobQueued?.();
        return idOfJob(json);
      },
    };
  };
}

const tagged = (resource: ResourceView, result: RecordResult): TaggedRecord => ({
  record: withOwnValues(resource, recordValues(result)),
  tag: result.tag ?? '',
});

/** Returns the member as the principal of operations. */
export const principalOf = ({ person, membership }: CurrentMember): Principal =>
  userPrincipal(person.session.user, membership);
