import { pipeline, type Readable } from 'node:stream';
import { promisify } from 'node:util';
import { brotliCompress, constants, createGzip, gunzip, gzip } from 'node:zlib';
import type { FastifyInstance, FastifyReply, FastifyRequest, preValidationHookHandler } from 'fastify';
import fastifyPlugin from 'fastify-plugin';
import { errors } from '../errors.ts';
import { varyBy } from './reply.ts';

/**
 * Parses a header such as `Accept` into names and weights. Names are lowercase, without parameters; weights
 * range from 0 to 1.
 */
export const parseWeights = (header: string): ReadonlyMap<string, number> =>
  new Map(
    header
      .toLowerCase()
      .split(',')
      .map((element) => {
        const [name = '', ...parameters] = element.split(';').map((part) => part.trim());
        const weight = parameters.find((parameter) => parameter.startsWith('q='));
        return [name, weight === undefined ? 1 : Number(weight.slice(2))];
      }),
  );

/**
 * Minimum and maximum sizes of bodies to compress, in bytes. Smaller bodies fit into one packet; compressing
 * larger bodies is not worth the CPU time.
 */
const [minSize, maxSize] = [1024, 512 * 1024];
/**
 * Maximum number of running and queued compressions. Additional responses are sent uncompressed. Node runs
 * four at a time.
 */
const maxEncoders = 8;

const [brotli, zip] = [promisify(brotliCompress), promisify(gzip)];
const { BROTLI_PARAM_QUALITY, BROTLI_PARAM_LGWIN, BROTLI_PARAM_SIZE_HINT } = constants;

/**
 * Encoders by content coding. `fast` uses little memory and is for bodies sent once; `small` is for bytes
 * that all clients share.
 */
const codings = {
  br: {
    fast: (bytes: Buffer): Promise<Buffer> =>
      brotli(bytes, {
        params: {
          [BROTLI_PARAM_QUALITY]: 4,
          [BROTLI_PARAM_LGWIN]: 17,
          [BROTLI_PARAM_SIZE_HINT]: bytes.length,
        },
      }),
    small: (bytes: Buffer): Promise<Buffer> =>
      brotli(bytes, { params: { [BROTLI_PARAM_QUALITY]: 9, [BROTLI_PARAM_SIZE_HINT]: bytes.length } }),
  },
  gzip: {
    fast: (bytes: Buffer): Promise<Buffer> => zip(bytes),
    small: (bytes: Buffer): Promise<Buffer> => zip(bytes, { level: 9 }),
  },
} as const;

type Coding = keyof typeof codings;

/** Sets the response headers and returns the shared bytes in a coding that the client accepts. */
type SharedBody = (request: FastifyRequest, reply: FastifyReply) => Buffer | Promise<Buffer>;

declare module 'fastify' {
  interface FastifyInstance {
    /** Returns a function that compresses shared bytes on first use, once per coding. */
    sharedBody: (bytes: Buffer) => SharedBody;
    /** Compresses a stream with `gzip` if the client accepts it, and sets the response headers. */
    compressedStream: (request: FastifyRequest, reply: FastifyReply, body: Readable) => Readable;
  }
}

/**
 * Compresses JSON and HTML responses to GET requests, for example lists and pages. Excludes single records because
 * their entity tags identify their exact bytes. The size of a compressed response reveals whether text from the
 * request repeats a secret in the page (BREACH), so pages must not contain the same secret twice: each response has
 * a new form token, and secrets that are shown once are in responses to POST requests. Must be registered before `memory`, which counts the bytes to send.
 */
export const compression = fastifyPlugin(
  async (app: FastifyInstance, { compress }: { readonly compress: boolean }) => {
    app.decorate('sharedBody', (bytes) => (compress ? sharedBody(bytes) : () => bytes));
    app.decorate('compressedStream', compress ? zipStream : (_request, _reply, body) => body);
    if (!compress) return;
    let encoders = 0;
    app.addHook('onSend', async (request, reply, payload) => {
      if (request.method !== 'GET' || reply.statusCode !== 200 || reply.hasHeader('etag')) return payload;
      if (reply.hasHeader('content-encoding') || !isCompressible(reply.getHeader('content-type')))
        return payload;
      if (!(typeof payload === 'string' || Buffer.isBuffer(payload))) return payload;
      const size = Buffer.byteLength(payload);
      if (size < minSize || size > maxSize) return payload;
      const coding = negotiate(request, reply);
      if (coding === undefined || encoders === maxEncoders) return payload;
      encoders++;
      try {
        const compressed = await codings[coding].fast(
          typeof payload === 'string' ? Buffer.from(payload) : payload,
        );
        reply.header('content-encoding', coding);
        return compressed;
      } finally {
        encoders--;
      }
    });
  },
  { name: 'compression', fastify: '5.x' },
);

function sharedBody(bytes: Buffer): SharedBody {
  const bodies = new Map<Coding, Promise<Buffer>>();
  return (request, reply) => {
    const coding = negotiate(request, reply);
    if (coding === undefined) return bytes;
    reply.header('content-encoding', coding);
    const cached = bodies.get(coding);
    if (cached !== undefined) return cached;
    const result = codings[coding].small(bytes);
    bodies.set(coding, result);
    return result;
  };
}

function zipStream(request: FastifyRequest, reply: FastifyReply, body: Readable): Readable {
  varyBy(reply, 'accept-encoding');
  const weights = parseWeights(acceptedCodings(request));
  if ((weights.get('gzip') ?? weights.get('*') ?? 0) === 0) return body;
  reply.header('content-encoding', 'gzip');
  // An error in either stream destroys the other one.
  return pipeline(body, createGzip({ level: constants.Z_BEST_SPEED }), () => {});
}

/** Sets `Vary` and returns the coding for a response, or undefined to send it uncompressed. */
function negotiate(request: FastifyRequest, reply: FastifyReply): Coding | undefined {
  varyBy(reply, 'accept-encoding');
  return acceptedCoding(acceptedCodings(request));
}

const acceptedCodings = ({ headers }: FastifyRequest): string => String(headers['accept-encoding'] ?? '');

const isCompressible = (type: unknown): boolean =>
  typeof type === 'string' && /^(application\/json|text\/html)\b/.test(type);

/** Returns the client's preferred coding (RFC 9110, section 12.5.3), or undefined if it accepts none. */
export function acceptedCoding(header: string): Coding | undefined {
  const weights = parseWeights(header);
  const weightOf = (coding: string) => weights.get(coding) ?? weights.get('*') ?? 0;
  if (weightOf('br') > 0 && weightOf('br') >= weightOf('gzip')) return 'br';
  return weightOf('gzip') > 0 ? 'gzip' : undefined;
}

const unzip = promisify(gunzip);

/**
 * Decodes a body with `Content-Encoding: gzip`.
 * @throws HttpError 400 for any other coding or for invalid gzip; 413 if the decoded body exceeds the
 * route's limit
 */
export const decodeBody: preValidationHookHandler = (request, _reply, done) => {
  const coding = request.headers['content-encoding']?.trim().toLowerCase() ?? 'identity';
  if (coding === 'identity' || !Buffer.isBuffer(request.body)) return done();
  if (coding !== 'gzip' && coding !== 'x-gzip')
    return done(errors.malformedHeader('Content-Encoding', 'must be gzip or identity'));
  const limit = request.routeOptions.bodyLimit;
  unzip(request.body, { maxOutputLength: limit }).then(
    (body) => {
      request.body = body;
      done();
    },
    ({ code }: NodeJS.ErrnoException) =>
      done(code === 'ERR_BUFFER_TOO_LARGE' ? errors.tooLarge(limit) : errors.invalidJson('it is not gzip')),
  );
};
