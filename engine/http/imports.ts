import { pipeline, Readable } from 'node:stream';
import { createGunzip } from 'node:zlib';
import { safeParse } from 'fast-content-type-parse';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import type { Resource } from '../compile/index.ts';
import type { Database } from '../database/index.ts';
import { errors } from '../errors.ts';
import {
  customFieldsIn,
  type FormatName,
  formatNames,
  formatOf,
  formatOfType,
  uploads,
} from '../records/index.ts';
import { authorize, authorizeAgain } from './authorize.ts';
import { sendDeprecations } from './deprecations.ts';
import { rejectOtherMethods } from './methods.ts';
import { commonInput, rejectHeaders } from './operation-input.ts';
import { assertWritable } from './read-only.ts';

/** Maximum total size of lines that have been read but not yet written, in bytes. */
const bufferedBytes = 4 * 1024 * 1024;
/** Minimum upload rate, in bytes per second spent waiting for the client. Slower clients are disconnected. */
const minimumRate = 1024;
const gracePeriodMs = 30_000;

/** Options for import routes. */
interface ImportRouteOptions {
  readonly resource: Resource;
  readonly database: Database;
  /** The name in the resource's path, which can be a former one. */
  readonly pathName: string;
  /** Base path of the resource. */
  readonly path: string;
  /** Maximum length of a decoded body, in bytes. */
  readonly maxBytes: number;
}

/** Adds the resource's routes whose request bodies are streamed. */
export async function importRoutes(
  app: FastifyInstance,
  { resource, database, pathName, path, maxBytes }: ImportRouteOptions,
): Promise<void> {
  sendDeprecations(app, resource, pathName);
  app.removeAllContentTypeParsers();
  app.addContentTypeParser('*', (_request, _payload, done) => done(null));
  for (const [name, operation] of Object.entries(uploads)) {
    app.route({
      method: operation.method,
      url: `${path}${operation.path}`,
      bodyLimit: bufferedBytes,
      config: { isStreamed: true },
      onRequest: authorize(app, resource, operation.action),
      handler: async (request, reply) => {
        const { caller, query, strict } = commonInput(request, reply);
        const upload = resource.viewFor(caller.principal.grants).uploads[name as keyof typeof uploads];
        try {
          const format = formatOfBody(request);
          rejectHeaders(
            request.headers,
            ['Idempotency-Key', 'If-Match', 'If-None-Match'],
            'cannot be sent with an import. Use "match" instead.',
          );
          const customFields = await customFieldsIn(database, resource, caller);
          const plan = upload.plan({ caller, format, customFields, ...upload.options(query, strict) });
          const actions =
            plan.match === undefined ? [operation.action] : [operation.action, 'update' as const];
          const assertAuthorized = authorizeAgain(app, request, resource, actions);
          const assertAllowed = async () => {
            assertWritable(app);
            await assertAuthorized();
          };
          return await upload.run(database, plan, decodeUpload(request, maxBytes), { assertAllowed });
        } finally {
          // Unread bytes would block the next request on the connection.
          request.raw.resume();
        }
      },
    });
    // GET and HEAD are handled by the route for records, which accepts any text as an ID.
    rejectOtherMethods(app, `${path}${operation.path}`, [operation.method], ['GET', 'HEAD']);
  }
}

/** Returns the format of a body. @throws HttpError 400 for a content type that cannot be imported */
function formatOfBody({ headers }: FastifyRequest): FormatName {
  const { type, parameters } = safeParse(headers['content-type']?.trim() ?? '');
  const format = formatOfType(type);
  if (format === undefined || !/^utf-?8$/i.test(parameters.charset ?? 'utf-8')) {
    const types = formatNames.map((name) => formatOf(name).type);
    throw errors.malformedHeader('Content-Type', `must be ${types.join(' or ')}, in UTF-8`);
  }
  return format;
}

/** Decodes a body. Iteration throws an HttpError if the body is too large or arrives too slowly. */
function decodeUpload({ raw, headers }: FastifyRequest, maxBytes: number): AsyncIterable<Buffer> {
  const coding = headers['content-encoding']?.trim().toLowerCase() ?? 'identity';
  if (Number(headers['content-length'] ?? 0) > maxBytes) throw errors.tooLarge(maxBytes);
  const chunks = readBody(raw);
  if (coding === 'identity') return limitSize(chunks, maxBytes);
  if (coding !== 'gzip' && coding !== 'x-gzip')
    throw errors.malformedHeader('Content-Encoding', 'must be gzip or identity');
  return limitSize(decompress(chunks), maxBytes);
}

/** Iterates over a request body. Ending the iteration early does not close the connection. */
async function* readBody(raw: Readable): AsyncGenerator<Buffer> {
  let waitMs = 0;
  let receivedBytes = 0;
  let start = performance.now();
  const startTimer = () => setTimeout(() => raw.destroy(errors.requestTimeout()), gracePeriodMs);
  let timer = startTimer();
  try {
    for await (const chunk of raw.iterator({ destroyOnReturn: false }) as AsyncIterable<Buffer>) {
      waitMs += performance.now() - start;
      receivedBytes += chunk.length;
      if (waitMs > gracePeriodMs && (receivedBytes / waitMs) * 1000 < minimumRate)
        throw errors.requestTimeout();
      clearTimeout(timer);
      yield chunk;
      // Time spent in the database does not count against the client.
      start = performance.now();
      timer = startTimer();
    }
  } finally {
    clearTimeout(timer);
  }
}

async function* decompress(source: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  const gunzip = createGunzip();
  pipeline(Readable.from(source), gunzip, () => {});
  try {
    yield* gunzip as AsyncIterable<Buffer>;
  } catch (cause) {
    throw String((cause as NodeJS.ErrnoException).code).startsWith('Z_')
      ? errors.malformedHeader('Content-Encoding', 'is gzip, but the body is not compressed')
      : cause;
  }
}

async function* limitSize(source: AsyncIterable<Buffer>, maxBytes: number): AsyncGenerator<Buffer> {
  let size = 0;
  for await (const chunk of source) {
    size += chunk.length;
    if (size > maxBytes) throw errors.tooLarge(maxBytes);
    yield chunk;
  }
}
