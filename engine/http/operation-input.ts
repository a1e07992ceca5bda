import type { IncomingHttpHeaders } from 'node:http';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { errors } from '../errors.ts';
import type { Query } from '../query/index.ts';
import {
  type Body,
  type EveryInput,
  type Idempotency,
  idempotencyOf,
  type Operation,
  readBody,
  type TextSigner,
  type Trace,
} from '../records/index.ts';
import { tagConditions } from './entity-tags.ts';
import { json } from './reply.ts';

/** Returns a pattern that matches a preference by name. The first match counts (RFC 7240, section 2). */
const preference = (name: string) => new RegExp(`(?:^|,)\\s*${name}\\s*=\\s*"?(\\w+)"?\\s*(?:$|[,;])`, 'i');
const handlingPreference = preference('handling');
const countPreference = preference('count');

/** The parts of an input that all routes have. */
interface CommonInput extends Pick<EveryInput, 'caller' | 'counting'> {
  readonly query: Query;
  readonly strict: boolean;
}

/** Returns the parts of an input that all routes have, and sets the headers of every response. */
export function commonInput(request: FastifyRequest, reply: FastifyReply): CommonInput {
  const { principal, headers } = request;
  if (principal === null) throw errors.unauthenticated();
  reply.header('content-type', json).header('cache-control', 'no-store');
  const prefer = [headers.prefer ?? []].flat().join(',');
  const strict = handlingPreference.exec(prefer)?.[1]?.toLowerCase() === 'strict';
  const counting = countPreference.exec(prefer)?.[1]?.toLowerCase();
  if (strict) reply.header('preference-applied', 'handling=strict');
  const statements = request.server.tracesStatements ? [] : undefined;
  const trace: Trace = { lane: undefined, statementMs: 0, statements };
  request.trace = trace;
  return {
    caller: { principal, requestId: request.id, trace },
    query: request.query as Query,
    strict,
    counting: counting === 'exact' || counting === 'estimated' ? counting : undefined,
  };
}

/** The input of an operation from a request. */
export interface RequestInput extends EveryInput {
  readonly query: Query;
  /** Returns the body if the operation has read it. */
  readonly parsedBody: () => Body | undefined;
}

/**
 * Returns an operation's input. The body and the headers are parsed when the operation reads them, so that errors
 * are reported in the operation's order.
 */
export function operationInput(
  request: FastifyRequest,
  reply: FastifyReply,
  { body: requirements }: Pick<Operation, 'body'>,
  signing: TextSigner,
): RequestInput {
  const { headers } = request;
  const { caller, query, strict, counting } = commonInput(request, reply);
  let body: Body | undefined;
  return {
    caller,
    query,
    strict,
    counting,
    signing,
    id: (request.params as { id?: string }).id ?? '',
    get body() {
      body ??= readBody(headers['content-type'], request.body, requirements);
      return body;
    },
    get conditions() {
      return tagConditions(headers);
    },
    get idempotency() {
      return idempotencyIn(headers, request.body as Buffer);
    },
    parsedBody: () => body,
  };
}

/** Parses `Idempotency-Key`. @throws HttpError 400 if it is malformed */
function idempotencyIn(headers: IncomingHttpHeaders, body: Buffer): Idempotency | undefined {
  const key = headers['idempotency-key']?.toString();
  if (key === undefined) return undefined;
  if (!/^[\x21-\x7e]{1,255}$/.test(key)) {
    throw errors.malformedHeader('Idempotency-Key', 'must be 1 to 255 visible ASCII characters');
  }
  return idempotencyOf(key, body);
}

/** Rejects headers that a route does not support. @throws HttpError 400 */
export function rejectHeaders(headers: IncomingHttpHeaders, names: readonly string[], reason: string): void {
  for (const name of names)
    if (headers[name.toLowerCase()] !== undefined) throw errors.malformedHeader(name, reason);
}
