import type { FastifyInstance, FastifyRequest } from 'fastify';
import type { Resource } from '../../../engine/compile/index.ts';
import type { Database } from '../../../engine/database/index.ts';
import { errors } from '../../../engine/errors.ts';
import { assertWritable } from '../../../engine/http/index.ts';
import type { Query } from '../../../engine/query/index.ts';
import {
  type Action,
  allows,
  type Body,
  type ChangeValues,
  changeValues,
  compileExcerpts,
  type DeletedResult,
  type Excerpts,
  exportStream,
  type ImportOptions,
  type ImportSummary,
  idempotencyOf,
  type Principal,
  pageValues,
  type RecordResult,
  type RecordValues,
  recordValues,
  runOperation,
  type TextSigner,
} from '../../../engine/records/index.ts';
import { type CurrentMember, memberOf } from '../shell/index.ts';

/** A record's values by field name. */
export type DataRecord = RecordValues;

/** A record and its entity tag, which is empty for a partial record. */
interface TaggedRecord {
  readonly record: DataRecord;
  readonly tag: string;
}

/** A page of items and the next page's cursor, if there is one. */
interface Page<Item> {
  readonly items: readonly Item[];
  readonly next: string | undefined;
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
  readonly allows: (resource: Resource, action: Action) => boolean;
  /** Returns a page of records, and the exact or estimated number of records on all pages. */
  readonly list: (resource: Resource, query: Query) => Promise<Page<DataRecord> & { readonly total: number }>;
  readonly read: (resource: Resource, id: string, query?: Query) => Promise<TaggedRecord>;
  /** Reads a record with its full values. */
  readonly readWhole: (resource: Resource, id: string, query?: Query) => Promise<TaggedRecord>;
  /** Returns a page of changes to a record, newest first. @param cursor empty for the first page */
  readonly history: (resource: Resource, id: string, cursor: string) => Promise<Page<ChangeValues>>;
  /** Returns a change with its full values. @throws HttpError 404 if the position does not exist */
  readonly change: (resource: Resource, id: string, position: string) => Promise<ChangeValues>;
  /** Creates a record once per key. Also returns whether an earlier call had already created it. */
  readonly create: (
    resource: Resource,
    key: string,
    body: Body,
  ) => Promise<{ readonly record: DataRecord; readonly isReplayed: boolean }>;
  /** Updates a record with this entity tag. @throws HttpError 412 if the record's tag is different */
  readonly patch: (resource: Resource, id: string, tag: string, body: Body) => Promise<DataRecord>;
  /** Deletes a record with this entity tag. @throws HttpError 412 if the record's tag is different */
  readonly remove: (resource: Resource, id: string, tag: string) => Promise<DeletedResult>;
  /** Returns all records that match a list's filters, as CSV. */
  readonly csv: (resource: Resource, query: Query) => Promise<AsyncIterable<Buffer>>;
  readonly importCsv: (
    resource: Resource,
    source: AsyncIterable<Buffer>,
    options: ImportOptions,
  ) => Promise<ImportSummary>;
}

/** Prepares the resources' operations. */
export function prepareCalls(
  app: FastifyInstance,
  {
    resources,
    database,
    signing,
  }: { readonly resources: readonly Resource[]; readonly database: Database; readonly signing: TextSigner },
): (request: FastifyRequest, member: CurrentMember) => Calls {
  const excerpts = compileExcerpts(
    resources.map(({ context }) => context),
    { many: excerptLengths.many + 1, one: excerptLengths.one + 1 },
  );
  const excerptsOf = ({ name }: Resource): Excerpts => {
    const excerptsOfResource = excerpts.get(name);
    if (excerptsOfResource === undefined) throw errors.notFound();
    return excerptsOfResource;
  };
  return (request, member) => {
    const { grants } = member.membership;
    const caller = { principal: principalOf(member), requestId: request.id };
    const permit = (resource: Resource, action: Action) => {
      if (!allows(grants, resource.name, action)) throw errors.forbidden(resource.name, action);
    };
    /**
     * Returns a check that long operations repeat, because the session can end and grants can change in the meantime.
     */
    const assertAllowed = (resource: Resource, actions: readonly Action[]) => async () => {
      if (actions.some((action) => action !== 'list')) assertWritable(app);
      request.person = await app.identify(request);
      const currentGrants = memberOf(app, request).membership.grants;
      for (const action of actions)
        if (!allows(currentGrants, resource.name, action)) throw errors.forbidden(resource.name, action);
    };
    return {
      allows: (resource, action) => allows(grants, resource.name, action),
      list: async (resource, query) => {
        permit(resource, 'list');
        const input = { caller, query, signing, counting: 'estimated' } as const;
        const page = await excerptsOf(resource).list(database, input);
        return { items: pageValues(page), next: page.next, total: page.total ?? 0 };
      },
      read: async (resource, id, query = {}) => {
        permit(resource, 'read');
        return tagged(await excerptsOf(resource).read(database, { caller, id, query }));
      },
      readWhole: async (resource, id, query = {}) => {
        permit(resource, 'read');
        return tagged(await runOperation(database, resource.operations.read, { caller, id, query }));
      },
      history: async (resource, id, cursor) => {
        permit(resource, 'read');
        const query = cursor === '' ? {} : { cursor };
        const history = await excerptsOf(resource).history(database, { caller, id, query, signing });
        return {
          items: changeValues(history),
          next: history.next,
        };
      },
      change: async (resource, id, position) => {
        permit(resource, 'read');
        const [change] = changeValues(await excerptsOf(resource).change(database, { caller, id, position }));
        if (change === undefined) throw errors.notFound();
        return change;
      },
      create: async (resource, key, body) => {
        permit(resource, 'create');
        const idempotency = idempotencyOf(key, JSON.stringify(body));
        const result = await runOperation(database, resource.operations.create, {
          caller,
          body,
          idempotency,
        });
        return { record: recordValues(result), isReplayed: result.isReplayed };
      },
      patch: async (resource, id, tag, body) => {
        permit(resource, 'update');
        const input = { caller, id, body, conditions: { match: [tag] } };
        return recordValues(await runOperation(database, resource.operations.patch, input));
      },
      remove: async (resource, id, tag) => {
        permit(resource, 'delete');
        return runOperation(database, resource.operations.remove, {
          caller,
          id,
          conditions: { match: [tag] },
        });
      },
      csv: async (resource, query) => {
        permit(resource, 'list');
        const operation = resource.operations.list.export;
        if (operation === undefined) throw errors.notFound();
        const mayList = assertAllowed(resource, ['list']);
        const plan = operation.plan({ caller, query });
        request.assertAllowed = mayList;
        return exportStream(database, operation, plan, 'csv', mayList);
      },
      importCsv: async (resource, source, options) => {
        permit(resource, 'create');
        const upload = resource.uploads.import;
        const plan = upload.plan({ caller, format: 'csv', ...options });
        const actions = plan.match === undefined ? (['create'] as const) : (['create', 'update'] as const);
        return upload.run(database, plan, source, { assertAllowed: assertAllowed(resource, actions) });
      },
    };
  };
}

const tagged = (result: RecordResult): TaggedRecord => ({
  record: recordValues(result),
  tag: result.tag ?? '',
});

const principalOf = ({ person, membership: { organization, grants } }: CurrentMember): Principal => {
  const { id, email } = person.session.user;
  return { kind: 'user', actor: id, name: email, organization, user: id, grants };
};
