import { Readable } from 'node:stream';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { pageSize, type Query } from '../query/index.ts';
import type { ListInput, OperationResult, PageResult } from '../records/index.ts';
import { allocate } from '../sql/index.ts';
import { quotedTag } from './entity-tags.ts';

/** Properties of a response that do not depend on the operation's result. */
interface ResponseContext {
  readonly input: Pick<ListInput, 'counting' | 'strict'>;
  /** Base path of the resource. */
  readonly path: string;
  /** Returns the resource's URL, for use in links. */
  readonly url: () => string;
}

/** Sends the result of an operation. @returns the body, or the reply if it was already sent */
export function respond(
  request: FastifyRequest,
  reply: FastifyReply,
  result: OperationResult,
  context: ResponseContext,
): FastifyReply | string | Buffer {
  if (result.kind === 'record' && result.isKnown) {
    reply.code(304);
    if (result.tag !== undefined) reply.header('etag', quotedTag(result.tag));
    // A 304 must not have the Content-Length of an empty body. For HEAD requests, Fastify would set it to 0
    // unless the body is a stream.
    return reply.removeHeader('content-type').send(request.method === 'HEAD' ? Readable.from([]) : undefined);
  }
  return bodyOf(request, reply, result, context);
}

/** Sets the response headers and returns the body. */
function bodyOf(
  request: FastifyRequest,
  reply: FastifyReply,
  result: OperationResult,
  { input, path, url }: ResponseContext,
): string | Buffer {
  switch (result.kind) {
    case 'record':
      if (result.tag !== undefined) reply.header('etag', quotedTag(result.tag));
      return result.json;
    case 'created':
      reply.code(201).header('etag', quotedTag(result.tag));
      if (result.isReplayed) reply.header('idempotency-replayed', 'true');
      reply.header('location', `${path}/${result.id}`);
      return result.json;
    case 'deleted':
      return '{"ok":true}';
    case 'page': {
      const link = pageLinks(result, url());
      if (link !== undefined) reply.header('link', link);
      sendTotal(reply, result, input);
      return wrapBody('{"data":[', result.json, `],"page":${result.page},"per_page":${pageSize}}`);
    }
    case 'query': {
      const { page, next } = result;
      sendTotal(reply, result, input);
      const cursor = next === undefined ? 'null' : `"${next}"`;
      return wrapBody('{"data":[', result.json, `],"page":${page},"per_page":${pageSize},"next":${cursor}}`);
    }
    case 'aggregate':
      return wrapBody('{"data":[', result.json, ']}');
    case 'history': {
      const { next, changes } = result;
      const { id } = request.params as { id: string };
      if (next !== undefined) reply.header('link', `<${url()}/${id}/history?cursor=${next}>; rel="next"`);
      return `{"data":[${changes.join(',')}]}`;
    }
    case 'bulk': {
      const preferences = [...(input.strict ? ['handling=strict'] : []), 'bulk'];
      reply.header('preference-applied', preferences.join(', '));
      return JSON.stringify({ count: result.count, confirm: result.confirm });
    }
    case 'batch':
      if (result.isReplayed) reply.header('idempotency-replayed', 'true');
      return result.json;
  }
}

/** Sets the headers with the number of records on all pages, if they were counted. */
function sendTotal(
  reply: FastifyReply,
  { total }: Pick<PageResult, 'total'>,
  { strict, counting }: ResponseContext['input'],
): void {
  if (total === undefined) return;
  const preferences = [...(strict ? ['handling=strict'] : []), `count=${counting}`];
  reply.header('x-total-count', String(total)).header('preference-applied', preferences.join(', '));
}

/** Maximum length of query parameters in links. Many clients accept at most 16 KB of headers. */
const maxParameters = 4000;

/**
 * Returns the Link header for a page (RFC 8288), with links to the first page and, if they exist, to the next and previous
 * ones. Returns undefined if the query parameters are too long for links.
 */
function pageLinks({ query, page, next, previous }: PageResult, url: string): string | undefined {
  const parameters = repeatedParameters(query);
  if (parameters.length > maxParameters) return undefined;
  const linkTo = (position: string, relation: 'first' | 'next' | 'prev') => {
    const query = [parameters, position].filter((part) => part !== '').join('&');
    return `<${url}${query === '' ? '' : `?${query}`}>; rel="${relation}"`;
  };
  // Cursors do not need to be encoded: they contain only letters, digits, "-", "_" and ".".
  const links = next === undefined ? [] : [linkTo(`cursor=${next}`, 'next')];
  if (previous !== undefined) links.push(linkTo(`cursor=${previous}`, 'prev'));
  else if (query.cursor === undefined && page > 1n) links.push(linkTo(`page=${page - 1n}`, 'prev'));
  return [...links, linkTo('', 'first')].join(', ');
}

/** Returns the request's query parameters to include in links to other pages. */
function repeatedParameters(query: Query): string {
  const names = Object.keys(query).filter((name) => name !== 'page' && name !== 'cursor');
  if (names.length === 0) return '';
  const parameters = new URLSearchParams();
  for (const name of names) for (const value of [query[name] ?? []].flat()) parameters.append(name, value);
  return String(parameters);
}

/** Concatenates an ASCII prefix, a body and an ASCII suffix. */
function wrapBody(prefix: string, body: string | Buffer, suffix: string): string | Buffer {
  if (typeof body === 'string') return prefix + body + suffix;
  const buffer = allocate(prefix.length + body.length + suffix.length);
  buffer.write(prefix, 0, 'latin1');
  body.copy(buffer, prefix.length);
  buffer.write(suffix, prefix.length + body.length, 'latin1');
  return buffer;
}
