import type { FastifyReply, FastifyRequest } from 'fastify';
import { HttpError } from '../../../engine/errors.ts';
import { httpErrorOf, json, sendError } from '../../../engine/http/index.ts';

/** An error of the token endpoint (RFC 6749, section 5.2). */
export class OAuthError extends Error {
  override readonly name = 'OAuthError';
  readonly code: string;
  constructor(code: string, description: string) {
    super(description);
    this.code = code;
  }
}

/** Sends a JSON object that must not be cached. */
export const sendUncached = (reply: FastifyReply, body: object): FastifyReply =>
  reply.header('content-type', json).header('cache-control', 'no-store').send(JSON.stringify(body));

/** Sends an error in the format of OAuth. Other failures, for example of the database, have the format of the API. */
export function sendOAuthError(error: unknown, request: FastifyRequest, reply: FastifyReply): unknown {
  if (error instanceof OAuthError)
    return sendUncached(reply.code(400), { error: error.code, error_description: error.message });
  const { status, message } = httpErrorOf(error, request);
  if (error instanceof HttpError || status >= 500) return sendError(error, request, reply);
  return sendUncached(reply.code(status), { error: 'invalid_request', error_description: message });
}
