import type { FastifyInstance, FastifyRequest, onRequestHookHandler } from 'fastify';
import { errors } from '../errors.ts';
import { type Action, allows, type Principal } from '../records/index.ts';

/**
 * Returns a hook that authenticates (401) and authorizes (403) a request before reading its body or looking
 * up any record.
 */
export function authorize(app: FastifyInstance, object: string, action: Action): onRequestHookHandler {
  function accept(request: FastifyRequest, principal: Principal, done: (error?: Error) => void): void {
    request.principal = principal;
    request.assertAllowed = authorizeAgain(app, request, object, [action]);
    done(allows(principal.grants, object, action) ? undefined : errors.forbidden(object, action));
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
 * check rejects with the same error that a new request would receive.
 */
export function authorizeAgain(
  app: FastifyInstance,
  request: FastifyRequest,
  object: string,
  actions: readonly Action[],
): () => Promise<void> {
  return async () => {
    const { grants } = await authenticateAgain(app, request);
    for (const action of actions) {
      if (!allows(grants, object, action)) throw errors.forbidden(object, action);
    }
  };
}
