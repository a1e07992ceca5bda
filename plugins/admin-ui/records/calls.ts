import type { FastifyInstance, FastifyRequest } from 'fastify';
import type { Resource } from '../../../engine/compile/index.ts';
import type { Database } from '../../../engine/database/index.ts';
import { errors } from '../../../engine/errors.ts';
import { parseExactJson } from '../../../engine/fields/index.ts';
import { assertWritable } from '../../../engine/http/index.ts';
import type { Query } from '../../../engine/query/index.ts';
import {
  type Action,
  allows,
  type Body,
  compileExcerpts,
  type Excerpts,
  execute,
  exportStream,
  type ImportSummary,
  type OperationRequest,
  type OperationResponse,
  operations,
  type Principal,
  routedOperations,
  type TextSigner,
} from '../../../engine/records/index.ts';
import { type CurrentMember, memberOf } from '../shell/index.ts';

/** A record as returned by the API. */
export type DataRecord = Readonly<Record<string, unknown>>;

/** Response of an operation. */
export interface Response {
  readonly body: DataRecord;
  readonly headers: Readonly<Record<string, string>>;
}

/** Returns the cursor of the next page, or undefined on the last page. */
export function nextCursor({ headers }: Response): string | undefined {
  const cursor = /[?&]cursor=([^&>]+)[^>]*>; rel="next"/.exec(headers.link ?? '')?.[1];
  return cursor === undefined ? undefined : decodeURIComponent(cursor);
}

/** Input for an operation. */
interface OperationInput {
  readonly query?: Query;
  readonly id?: string;
  readonly body?: Body;
  readonly headers?: Readonly<Record<string, string>>;
}

type OperationName = keyof typeof operations;

/**
 * Maximum length, in characters, of the texts that are read for lists and histories (`many`) and for a record's page
 * (`one`).
 */
export const excerptLengths = { many: 1000, one: 4000 } as const;

/** Operations that can return truncated texts. */
export type ExcerptName = keyof Excerpts;
type Runnable = ReturnType<typeof routedOperations>[number];

/** The API's operations, called on behalf of a member, with the same permissions, validation and change log. */
export interface Calls {
  readonly allows: (resource: Resource, action: Action) => boolean;
  /**
   * Runs an operation.
   * @throws HttpError as the API does
   */
  readonly call: (resource: Resource, operation: OperationName, input?: OperationInput) => Promise<Response>;
  /**
   * Runs an operation for display. Longer texts are truncated one character beyond {@link excerptLengths}. The `change`
   * parameter selects one change by its position and returns its full texts.
   * @throws HttpError as the API does
   */
  readonly excerpt: (resource: Resource, operation: ExcerptName, input?: OperationInput) => Promise<Response>;
  /** Returns all records that match a list's filters, as CSV. */
  readonly csv: (resource: Resource, query: Query) => Promise<AsyncIterable<Buffer>>;
  readonly importCsv: (
    resource: Resource,
    source: AsyncIterable<Buffer>,
    query: Query,
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
  const names = Object.keys(operations) as OperationName[];
  const runnable = new Map(
    resources.map((resource) => {
      const compiledOperations = routedOperations(resource.operations);
      return [
        resource.name,
        new Map(names.map((name, index) => [name, compiledOperations[index] as Runnable])),
      ];
    }),
  );
  const excerpts = compileExcerpts(
    resources.map(({ context }) => context),
    { many: excerptLengths.many + 1, one: excerptLengths.one + 1 },
  );
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
    const requestOf = ({ query = {}, id, body = {}, headers = {} }: OperationInput): OperationRequest => ({
      caller,
      query,
      headers,
      id,
      strict: false,
      counting: 'estimated',
      links: { url: () => '', signing },
      body: () => body,
      bytes: () => Buffer.from(JSON.stringify(body)),
    });
    const read = ({ body, headers = {} }: OperationResponse): Response => ({
      body: parseExactJson(String(body)) as DataRecord,
      headers,
    });
    return {
      allows: (resource, action) => allows(grants, resource.name, action),
      call: async (resource, name, input = {}) => {
        const entry = runnable.get(resource.name)?.get(name);
        if (entry === undefined) throw errors.notFound();
        const { operation, compiled } = entry;
        permit(resource, operation.action);
        const plan = await compiled.plan(requestOf(input));
        return read(compiled.respond(plan, await execute(database, compiled, plan)));
      },
      excerpt: async (resource, name, input = {}) => {
        const run = excerpts.get(resource.name)?.[name];
        if (run === undefined) throw errors.notFound();
        permit(resource, name === 'list' ? 'list' : 'read');
        return read(await run(database, requestOf(input)));
      },
      csv: async (resource, query) => {
        permit(resource, 'list');
        const operation = runnable.get(resource.name)?.get('list')?.compiled.export;
        if (operation === undefined) throw errors.notFound();
        const plan = operation.plan(requestOf({ query }));
        const mayList = assertAllowed(resource, ['list']);
        request.assertAllowed = mayList;
        return exportStream(database, operation, plan, 'csv', mayList);
      },
      importCsv: async (resource, source, query) => {
        permit(resource, 'create');
        const upload = resource.uploads.import;
        const plan = upload.plan({ caller, query, strict: false, headers: {}, format: 'csv' });
        const actions = plan.match === undefined ? (['create'] as const) : (['create', 'update'] as const);
        return upload.run(database, plan, source, { assertAllowed: assertAllowed(resource, actions) });
      },
    };
  };
}

const principalOf = ({ person, membership: { organization, grants } }: CurrentMember): Principal => {
  const { id, email } = person.session.user;
  return { kind: 'user', actor: id, name: email, organization, user: id, grants };
};
