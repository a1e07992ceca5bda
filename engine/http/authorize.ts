import type { FastifyInstance, FastifyRequest, onRequestHookHandler } from 'fastify';
import { errors } from '../errors.ts';
import { type Action, allows, type Principal } from '../records/index.ts';

/** 401, then 403, before the body is read and before any record is looked up. */
export function authorize(app: FastifyInstance, object: string, action: Action): onRequestHookHandler {
  function accept(request: FastifyRequest, principal: Principal, done: (error?: Error) => void): void {
    request.principal = principal;
    request.assertAllowed = authorizeAgain(app, request, object, [action]);
    done(allows(principal.grants, object, action) ? undefined : errors.forbidden(object, action));
  }
  return (request, _reply, done) => {
    try {
      const caller = app.authenticate(request);
      // Mostly known already: then the request continues without waiting.
      if (caller instanceof Promise) caller.then((principal) => accept(request, principal, done), done);
      else accept(request, caller, done);
    } catch (error) {
      done(error as Error);
    }
  };
}

/**
 * The caller of a request that takes long, as of now.
 * @throws HttpError 401 once the credentials have ended; 403 once they are of another organization
 */
export async function authenticateAgain(app: FastifyInstance, request: FastifyRequest): Promise<Principal> {
  const principal = await app.authenticate(request);
  // The only membership of a person, who names none, may have become another one.
  if (principal.organization !== request.principal?.organization) throw errors.noSuchMembership();
  return principal;
}

/**
 * For requests that take long: credentials and grants may end meanwhile.
 * @returns a check before each further part, which rejects with what a new request would be refused with
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
