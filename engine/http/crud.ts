import type { FastifyInstance, FastifyRequest, RouteOptions } from 'fastify';
import type { Resource } from '../compile/index.ts';
import type { Database, Trace } from '../database/index.ts';
import type { Query } from '../query/index.ts';
import {
  type Body,
  bodyRequirements,
  type CallerIdentity,
  customFieldsIn,
  execute,
  formatOf,
  type Operation,
  operationsOf,
  type Principal,
  routedOperation,
  type TextSigner,
} from '../records/index.ts';
import { actionRoutes } from './action-routes.ts';
import { authorize, authorizeAgain } from './authorize.ts';
import { decodeBody } from './compression.ts';
import { sendDeprecations } from './deprecations.ts';
import { acceptedFormat, sendExport } from './exports.ts';
import { logSlow } from './log.ts';
import { rejectOtherMethods, requireBulk } from './methods.ts';
import { RequestInput, rejectHeaders } from './operation-input.ts';
import { respond } from './respond.ts';

/** Parameters whose values are field names. */
const fieldNameParameters = ['sort', 'fields', 'expand', 'match', 'group_by', 'measure'] as const;
/** Matches a field's name at the start of a text, after `-`, or in parentheses, as in `sum(amount)`. */
const baseName = /(?<=\()\w*|(?<=^-?)\w+\b(?!\()/;

/**
 * Returns the fields named in a request's parameters and body. The body can contain many records.
 * @param fieldNames names of the resource's fields
 */
export function fieldNamesInRequest(
  query: Query,
  body: Body | undefined,
  fieldNames: ReadonlySet<string>,
): Set<string> {
  const result = new Set<string>();
  const add = (name: string) => {
    if (fieldNames.has(name)) result.add(name);
  };
  for (const parameter in query) add(baseName.exec(parameter)?.[0] ?? '');
  for (const parameter of fieldNameParameters) {
    const value = query[parameter];
    if (value === undefined) continue;
    for (const text of [value].flat())
      for (const name of text.split(',')) add(baseName.exec(name.trim())?.[0] ?? '');
  }
  if (body === undefined) return result;
  for (const key in body) add(key);
  const { records, match } = body;
  if (Array.isArray(records)) {
    for (const record of records) for (const key in record as object) add(key);
  }
  if (Array.isArray(match)) for (const name of match) add(String(name));
  return result;
}

const fieldNamesOf = ({ definition }: Pick<Resource, 'definition'>): ReadonlySet<string> =>
  new Set(definition.fields.map(({ name }) => name));

declare module 'fastify' {
  interface FastifyInstance {
    /**
     * Returns the caller and organization of a request, synchronously if the result is cached. Set by a
     * module.
     * @throws HttpError 401, identical for every reason; 400 or 403 if `?org=` is missing or not accessible;
     * 500 if the database does not respond
     */
    authenticate: (request: FastifyRequest) => Principal | Promise<Principal>;
    /**
     * Returns a key or user with its current grants, without a request. Returns undefined if it can no longer authenticate.
     * Set by a module.
     */
    principalAgain: (caller: CallerIdentity) => Promise<Principal | undefined>;
    /** Total statement time, in milliseconds, above which a request is logged. */
    slowMs: number;
    /** Whether to record every statement of a request. */
    tracesStatements: boolean;
    /**
     * Called with the names used in a request: the resource name from the path, and field names. Can be set
     * by a module.
     */
    namesSent?: (principal: Principal, resource: string, names: Iterable<string>) => void;
  }
  interface FastifyRequest {
    /** The authenticated caller, set before the route's handler runs. */
    principal: Principal | null;
    /** Measurements of the request's statements; absent before the first statement. */
    trace?: Trace;
  }
}

/** Options for the routes of a resource. */
interface CrudOptions {
  readonly resource: Resource;
  readonly database: Database;
  /** The name in the resource's path, which can be a former one. */
  readonly pathName: string;
  /** Base path of the resource. */
  readonly path: string;
  /** Returns the origin for links, without a trailing slash. If unknown (empty), links contain only paths. */
  readonly publicUrl: () => string;
  /** Signs list cursors. */
  readonly signing: TextSigner;
}

/** Adds a resource's routes: all operations, and a 405 response to all other methods. */
export async function crud(
  app: FastifyInstance,
  { resource, database, pathName, path, publicUrl, signing }: CrudOptions,
): Promise<void> {
  const resourceUrl = () => `${publicUrl()}${path}`;
  const fieldNames = fieldNamesOf(resource);
  const lists = resource.definition.expansion.flatMap(({ name, to, isWritable }) =>
    isWritable === true && to !== undefined
      ? [{ name, to, fieldNames: fieldNamesOf(resource.context.contextOf(to)) }]
      : [],
  );
  type Method = Operation['method'] | 'HEAD' | 'QUERY';
  const methodsByUrl = new Map<string, Method[]>();
  /** Methods that need a preference, by URL. */
  const preferredByUrl = new Map<string, Method[]>();
  sendDeprecations(app, resource, pathName);
  for (const routed of operationsOf(resource.definition)) {
    const { name, operation } = routed;
    const requirements = bodyRequirements(routed, resource.definition);
    const byUrl = operation.preference === undefined ? methodsByUrl : preferredByUrl;
    const addMethods = (url: string, ...methods: Method[]) =>
      byUrl.set(url, [...(byUrl.get(url) ?? []), ...methods]);
    const url = `${path}${operation.path}`;
    if (operation.method === 'GET') addMethods(url, 'GET', 'HEAD');
    else addMethods(url, operation.method);
    const authorization = authorize(app, resource, operation.action);
    const route: Omit<RouteOptions, 'method' | 'url'> = {
      onRequest:
        operation.preference === undefined
          ? authorization
          : [requireBulk(() => methodsByUrl.get(url) ?? []), authorization],
      preValidation: decodeBody,
      ...(requirements?.maxBytes !== undefined && { bodyLimit: requirements.maxBytes }),
      config: {
        streams: (operation.formats ?? []).map((format) => formatOf(format).type),
        isServedReadOnly: operation.isSafe === true,
      },
      handler: async (request, reply) => {
        const input = new RequestInput(request, reply, requirements, signing);
        const { caller, query } = input;
        const customFields = customFieldsIn(database, resource, caller);
        input.customFields = customFields instanceof Promise ? await customFields : customFields;
        const compiled = routedOperation(resource.viewFor(caller.principal.grants).operations, name);
        const reportNames = () => {
          const body = input.parsedBody;
          const { bodyNames } = operation;
          if (bodyNames !== undefined) {
            const parameters = body === undefined ? {} : bodyNames.parameters(body);
            app.namesSent?.(
              caller.principal,
              pathName,
              fieldNamesInRequest(parameters, undefined, fieldNames),
            );
            return;
          }
          app.namesSent?.(caller.principal, pathName, fieldNamesInRequest(query, body, fieldNames));
          for (const list of lists) {
            const items = body?.[list.name];
            if (Array.isArray(items))
              app.namesSent?.(
                caller.principal,
                list.to,
                fieldNamesInRequest({}, { records: items }, list.fieldNames),
              );
          }
        };
        if (operation.isBatch)
          rejectHeaders(
            request.headers,
            ['If-Match', 'If-None-Match'],
            'cannot be sent with a batch because it applies to a single record',
          );
        if (compiled.export !== undefined) {
          const format = acceptedFormat(request.headers.accept, operation.formats ?? []);
          if (format !== undefined) {
            const exporter = compiled.export;
            const plan = exporter.plan(input);
            reportNames();
            const assertAllowed = authorizeAgain(app, request, resource, [operation.action], (principal) =>
              exporter.authorizeRelated(plan, principal),
            );
            request.assertAllowed = assertAllowed;
            return sendExport(request, reply, database, { operation: exporter, plan, format, assertAllowed });
          }
        }
        const planOrPromise = compiled.plan(input);
        const plan = planOrPromise instanceof Promise ? await planOrPromise : planOrPromise;
        reportNames();
        const rows = await execute(database, compiled, plan).finally(() => logIfSlow(request));
        return respond(request, reply, compiled.result(plan, rows), { input, path, url: resourceUrl });
      },
    };
    app.route({ ...route, method: operation.method, url });
    if (operation.alternativeMethod !== undefined) {
      addMethods(path, operation.alternativeMethod);
      app.route({ ...route, method: operation.alternativeMethod, url: path });
    }
  }
  actionRoutes(app, { resource, database, path, signing });
  for (const [url, methods] of methodsByUrl) {
    // The route for records handles GET and HEAD, because it accepts any text as an ID.
    const reads = /^\/[^/:]+$/.test(url.slice(path.length)) ? (['GET', 'HEAD'] as const) : [];
    rejectOtherMethods(app, url, methods, [...reads, ...(preferredByUrl.get(url) ?? [])]);
  }
}

function logIfSlow(request: FastifyRequest): void {
  const { trace, server } = request;
  if (trace !== undefined && trace.statementMs > server.slowMs) logSlow(request, trace);
}
