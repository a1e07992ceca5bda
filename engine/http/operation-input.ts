import type { IncomingHttpHeaders } from 'node:http';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Trace } from '../database/index.ts';
import { errors } from '../errors.ts';
import type { Query } from '../query/index.ts';
import {
  type Body,
  type BodyRequirements,
  type Caller,
  type CustomFields,
  type EveryInput,
  type Idempotency,
  idempotencyOf,
  type ListInput,
  readBody,
  type TagConditions,
  type TextSigner,
} from '../records/index.ts';
import { tagConditions } from './entity-tags.ts';
import { json } from './reply.ts';

/** Returns a pattern that matches a named preference. The first match takes effect (RFC 7240, section 2). */
const preference = (name: string) => new RegExp(`(?:^|,)\\s*${name}\\s*=\\s*"?(\\w+)"?\\s*(?:$|[,;])`, 'i');
const handlingPreference = preference('handling');
const countPreference = preference('count');

const bulkPreference = /(?:^|,)\s*bulk\s*(?:$|[,;])/i;

/** Returns the value of `Prefer`, with all its preferences. */
const preferencesOf = ({ prefer }: IncomingHttpHeaders): string => [prefer ?? []].flat().join(',');

/** Returns whether a request prefers a bulk change of all records that match its filters. */
export const prefersBulk = (headers: IncomingHttpHeaders): boolean =>
  bulkPreference.test(preferencesOf(headers));

/** The parts of the input that all routes share. */
interface CommonInput extends Pick<ListInput, 'caller' | 'counting'> {
  readonly query: Query;
  readonly strict: boolean;
}

/** Returns the parts of the input that all routes share, and sets the headers common to all responses. */
export function commonInput(request: FastifyRequest, reply: FastifyReply): CommonInput {
  const { principal, headers } = request;
  if (principal === null) throw errors.unauthenticated();
  reply.header('content-type', json).header('cache-control', 'no-store');
  const prefer = preferencesOf(headers);
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

/**
 * An operation's input, taken from a request. The body and headers are parsed only when the operation reads
 * them, so that the operation determines the order in which errors are reported.
 */
export class RequestInput implements EveryInput {
  readonly caller: Caller;
  readonly query: Query;
  readonly strict: boolean;
  readonly counting: ListInput['counting'];
  readonly signing: TextSigner;
  readonly id: string;
  /** The custom fields of the caller's organization, or undefined if no resource has custom fields. */
  customFields: CustomFields | undefined;
  /** The parsed body and headers, each undefined until the operation reads it. */
  parsedBody: Body | undefined;
  parsedConditions: TagConditions | undefined;
  parsedIdempotency: Idempotency | undefined;
  private readonly request: FastifyRequest;
  private readonly requirements: BodyRequirements | undefined;

  constructor(
    request: FastifyRequest,
    reply: FastifyReply,
    requirements: BodyRequirements | undefined,
    signing: TextSigner,
  ) {
    const { caller, query, strict, counting } = commonInput(request, reply);
    this.caller = caller;
    this.query = query;
    this.strict = strict;
    this.counting = counting;
    this.signing = signing;
    this.id = (request.params as { id?: string }).id ?? '';
    this.customFields = undefined;
    this.parsedBody = undefined;
    this.parsedConditions = undefined;
    this.parsedIdempotency = undefined;
    this.request = request;
    this.requirements = requirements;
  }

  get body(): Body {
    const { headers, body } = this.request;
    this.parsedBody ??= readBody(headers['content-type'], body, this.requirements);
    return this.parsedBody;
  }

  get conditions(): TagConditions | undefined {
    this.parsedConditions ??= tagConditions(this.request.headers);
    return this.parsedConditions;
  }

  get idempotency(): Idempotency | undefined {
    this.parsedIdempotency ??= idempotencyIn(this.request.headers, this.request.body as Buffer | undefined);
    return this.parsedIdempotency;
  }
}

/**
 * Parses `Idempotency-Key`.
 * @param body undefined if the request of an action has no body
 * @throws HttpError 400 if it is malformed
 */
function idempotencyIn(headers: IncomingHttpHeaders, body: Buffer | undefined): Idempotency | undefined {
  const key = headers['idempotency-key']?.toString();
  if (key === undefined) return undefined;
  if (!/^[\x21-\x7e]{1,255}$/.test(key)) {
    throw errors.malformedHeader('Idempotency-Key', 'must be 1 to 255 visible ASCII characters');
  }
  return idempotencyOf(key, body ?? '');
}

/** Rejects headers that a route does not support. @throws HttpError 400 if one is present */
export function rejectHeaders(headers: IncomingHttpHeaders, names: readonly string[], reason: string): void {
  for (const name of names)
    if (headers[name.toLowerCase()] !== undefined) throw errors.malformedHeader(name, reason);
}
