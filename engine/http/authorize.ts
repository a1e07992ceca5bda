import type { FastifyInstance, FastifyRequest, onRequestHookHandler } from 'fastify';
import type { Resource } from '../compile/index.ts';
import { errors, type HttpError } from '../errors.ts';
import { allows, type Grants, type Principal } from '../records/index.ts';

/** An object on which actions are granted. */
type GrantObject = string | Resource;

/** Returns the error if the caller's grants do not allow an action, or undefined if they do. */
function grantError(
  { grants, proposes }: Pick<Principal, 'grants' | 'proposes'>,
  object: GrantObject,
  action: string,
): HttpError | undefined {
  const [name, granted] = typeof object === 'string' ? [object, object] : [object.name, object.definition];
  if (allows(grants, granted, action)) return undefined;
  return proposes !== undefined && allows(proposes, granted, action)
    ? errors.onlyProposes(name, action)
    : errors.forbidden(name, action);
}

/** Returns the error for a long-running request whose caller's limits have changed. */
export const limitsChanged = (): HttpError =>
  errors.notPermitted('The records or fields that you are allowed to access have changed during the request');

/** Returns the key of the view of callers with these grants. */
const viewOf = (object: GrantObject, grants: Grants): string =>
  typeof object === 'string' ? '' : object.viewFor(grants).context.view;

/**
 * Returns a hook that authenticates (401) and authorizes (403) a request before reading its body or looking
 * up any record.
 */
export function authorize(app: FastifyInstance, object: GrantObject, action: string): onRequestHookHandler {
  function accept(request: FastifyRequest, principal: Principal, done: (error?: Error) => void): void {
    request.principal = principal;
    request.assertAllowed = authorizeAgain(app, request, object, [action]);
    done(grantError(principal, object, action));
  }
  return (request, _reply, done) => {
    try {
      const caller = app.authenticate(request);
      // The caller is usually cached, so the request continues synchronously.
      if (caller instanceof Promise) caller.then((principal) => accept(request, principal, done), done);
      else accept(request, caller, done);
    } catch (error) {
      done(error as Error);
    }
  };
}

/**
 * Reauthenticates a long-running request.
 * @throws HttpError 401 if the credentials are no longer valid; 403 if they now belong to another
 * organization
 */
export async function authenticateAgain(app: FastifyInstance, request: FastifyRequest): Promise<Principal> {
  const principal = await app.authenticate(request);
  // Without `?org=`, the organization can differ if the user's only membership has changed.
  if (principal.organization !== request.principal?.organization) throw errors.notAMember();
  return principal;
}

/**
 * Returns a check for a long-running request, whose credentials and grants can be revoked while it runs. The
 * check rejects with the same error that a new request would receive. It also rejects if the caller's limits have changed,
 * because the request continues with the limits with which it started.
 * @param authorizeMore additional check of the caller's current grants
 */
export function authorizeAgain(
  app: FastifyInstance,
  request: FastifyRequest,
  object: GrantObject,
  actions: readonly string[],
  authorizeMore: (principal: Principal) => void = () => {},
): () => Promise<void> {
  const { principal } = request;
  return async () => {
    const current = await authenticateAgain(app, request);
    const { grants } = current;
    for (const action of actions) {
      const error = grantError(current, object, action);
      if (error !== undefined) throw error;
    }
    if (principal !== null && viewOf(object, grants) !== viewOf(object, principal.grants))
      throw limitsChanged();
    authorizeMore(current);
  };
}
