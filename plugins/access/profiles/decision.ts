import { parse } from 'node:querystring';
import type { Resource } from '../../../engine/compile/index.ts';
import type { Database } from '../../../engine/database/index.ts';
import { HttpError, UserError } from '../../../engine/errors.ts';
import { apiPrefix } from '../../../engine/http/index.ts';
import type { Query } from '../../../engine/query/index.ts';
import {
  type Action,
  allows,
  operationsOf,
  type Principal,
  routedOperation,
  uploads,
} from '../../../engine/records/index.ts';
import { suggestion } from '../../../engine/yaml/index.ts';
import { isInScope, permissionsOn } from './permissions.ts';

/** Whether grants allow a request, and the reason. */
export interface Decision {
  readonly allowed: boolean;
  readonly resource: string;
  readonly action: Action;
  /** The status of the response if the request is rejected: 403 without the grant, 404 for a record outside its scopes. */
  readonly status?: 403 | 404;
  /** Scopes to which the grants limit the action. */
  readonly scopes?: readonly string[];
  /** The grant that would allow the request. */
  readonly grant?: string;
  readonly reason: string;
}

/** Returns the resource, the action and the record's ID of a request. @throws UserError if it is not a request for records */
function parseRequest(resources: readonly Resource[], method: string, path: string) {
  const [pathname = '', ...search] = path.split('?');
  const [name = '', ...segments] = pathname.startsWith(`${apiPrefix}/`)
    ? pathname.slice(apiPrefix.length + 1).split('/')
    : [];
  if (name === '')
    throw new UserError(`"${path}" is not a path below ${apiPrefix}, for example ${apiPrefix}/orders/7`);
  const names = resources.map((resource) => resource.name);
  const resource = resources.find((candidate) => candidate.name === name);
  if (resource === undefined)
    throw new UserError(
      `resource "${name}" does not exist${suggestion(name, names) || '.'} Available: ${names.join(', ')}.`,
    );
  const rest = segments.map((segment) => `/${segment}`).join('');
  const verb = method.toUpperCase() === 'HEAD' ? 'GET' : method.toUpperCase();
  const query = parse(search.join('?')) as Query;
  const isUpload = verb === uploads.import.method && rest === uploads.import.path;
  if (isUpload) return { resource, action: uploads.import.action, id: undefined, query, name: undefined };
  const all = operationsOf(resource.definition);
  const candidates = all.filter(({ operation }) => operation.method === verb);
  const found =
    (rest === '' ? all.find(({ operation }) => operation.alternativeMethod === verb) : undefined) ??
    candidates.find(({ operation }) => operation.path === rest) ??
    candidates.find(({ operation }) => operation.path.replace(':id', segments[0] ?? ':id') === rest);
  if (found === undefined) throw new UserError(`${method} ${path} is not an operation on ${name}`);
  const { action, path: pattern } = found.operation;
  const id = pattern.includes(':id') ? segments[0] : undefined;
  return { resource, action, id, query, name: found.name };
}

/** Returns the error with which a request is rejected because its parameters need another grant, if any. */
async function rejectionOf(
  { resource, query, name, id = '1' }: ReturnType<typeof parseRequest>,
  principal: Principal,
): Promise<HttpError | undefined> {
  const { operations, uploads: compiledUploads } = resource.viewFor(principal.grants);
  const caller = { principal, requestId: '' };
  try {
    if (name === undefined) {
      const upload = compiledUploads.import;
      upload.plan({ caller, format: 'csv', ...upload.options(query, false) });
    } else await routedOperation(operations, name).plan({ caller, query, id, body: {} });
  } catch (cause) {
    // Other rejections, for example of the empty body, do not depend on grants.
    if (cause instanceof HttpError && cause.status === 403) return cause;
    if (!(cause instanceof HttpError)) throw cause;
  }
  return undefined;
}

/**
 * Decides whether a caller's grants allow a request for records.
 * @throws UserError if it is not a request for records
 */
export async function decide(
  { database, resources }: { readonly database: Database; readonly resources: readonly Resource[] },
  principal: Principal,
  method: string,
  path: string,
): Promise<Decision> {
  const request = parseRequest(resources, method, path);
  const { resource, action, id } = request;
  const base = { resource: resource.name, action };
  const grant = `${resource.name}:${action}`;
  const { scopes } = permissionsOn(resource, principal).actions[action] ?? {};
  const limited = { ...base, ...(scopes && { scopes }) };
  if (!allows(principal.grants, resource.definition, action))
    return { ...base, allowed: false, status: 403, grant, reason: `the profile does not grant ${grant}` };
  const rejection = await rejectionOf(request, principal);
  if (rejection !== undefined) {
    const { grant: missing = grant } = rejection.extra;
    const reason = `the request also needs the grant ${missing}`;
    return { ...base, allowed: false, status: 403, grant: missing, reason };
  }
  const scopeText = scopes === undefined ? 'all records' : `records in ${scopes.join(' or ')}`;
  const granted = `the profile grants ${grant} on ${scopeText}`;
  if (id === undefined || (await isInScope(database, resource, principal, { action, id })))
    return { ...limited, allowed: true, reason: granted };
  const reason = `${granted}, but the record ${scopes === undefined ? 'does not exist' : 'does not exist or is not one of them'}`;
  return { ...limited, allowed: false, status: 404, ...(scopes && { grant }), reason };
}
