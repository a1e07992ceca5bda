import { pipeline, type Readable } from 'node:stream';
import { promisify } from 'node:util';
import { brotliCompress, constants, createGzip, gunzip, gzip } from 'node:zlib';
import type { FastifyInstance, FastifyReply, FastifyRequest, preValidationHookHandler } from 'fastify';
import fastifyPlugin from 'fastify-plugin';
import { errors } from '../errors.ts';
import { varyBy } from './reply.ts';
import { parseWeights } from './weights.ts';

/** Smaller bodies fit into a packet as they are; larger ones take more of the processor than they save. In bytes. */
const [smallest, largest] = [1024, 512 * 1024];
/** Responses that are compressed at the same time; further ones are sent as they are. Node compresses four at a time. */
const maxEncoders = 8;

const [brotli, zip] = [promisify(brotliCompress), promisify(gzip)];
const { BROTLI_PARAM_QUALITY, BROTLI_PARAM_LGWIN, BROTLI_PARAM_SIZE_HINT } = constants;

/** How bodies are compressed: `fast` for one reader, with little memory, or `small` for all readers. */
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

/** Bytes that are the same for all readers, as one reader accepts them; sets the headers that say so. */
export type SharedBody = (request: FastifyRequest, reply: FastifyReply) => Buffer | Promise<Buffer>;

declare module 'fastify' {
  interface FastifyInstance {
    /** Compresses bytes that all readers get when they are first asked for: once for each coding. */
    sharedBody: (bytes: Buffer) => SharedBody;
    /** A body of any length as its reader accepts it: `gzip` or as it is; sets the headers that say so. */
    compressedStream: (request: FastifyRequest, reply: FastifyReply, body: Readable) => Readable;
  }
}

/**
 * Compresses JSON that is read: lists and the description. Not single records, whose entity tag names their bytes, and
 * not pages, whose forms hold secrets. Registered before `memory`, which counts what is sent.
 */
export const compression = fastifyPlugin(
  async (app: FastifyInstance, { compress }: { readonly compress: boolean }) => {
    app.decorate('sharedBody', (bytes) => (compress ? sharedBody(bytes) : () => bytes));
    app.decorate('compressedStream', compress ? zipStream : (_request, _reply, body) => body);
    if (!compress) return;
    let encoders = 0;
    app.addHook('onSend', async (request, reply, payload) => {
      if (request.method !== 'GET' || reply.statusCode !== 200 || reply.hasHeader('etag')) return payload;
      if (reply.hasHeader('content-encoding') || !isJson(reply.getHeader('content-type'))) return payload;
      if (!(typeof payload === 'string' || Buffer.isBuffer(payload))) return payload;
      const size = Buffer.byteLength(payload);
      if (size < smallest || size > largest) return payload;
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
  const compressed = new Map<Coding, Promise<Buffer>>();
  return (request, reply) => {
    const coding = negotiate(request, reply);
    if (coding === undefined) return bytes;
    reply.header('content-encoding', coding);
    const known = compressed.get(coding);
    if (known !== undefined) return known;
    const made = codings[coding].small(bytes);
    compressed.set(coding, made);
    return made;
  };
}

function zipStream(request: FastifyRequest, reply: FastifyReply, body: Readable): Readable {
  varyBy(reply, 'accept-encoding');
  const weights = parseWeights(acceptedCodings(request));
  if ((weights.get('gzip') ?? weights.get('*') ?? 0) === 0) return body;
  reply.header('content-encoding', 'gzip');
  // A failure on either side ends the other.
  return pipeline(body, createGzip({ level: constants.Z_BEST_SPEED }), () => {});
}

/** The coding of a response, which depends on what its reader accepts; undefined: none. */
function negotiate(request: FastifyRequest, reply: FastifyReply): Coding | undefined {
  varyBy(reply, 'accept-encoding');
  return acceptedCoding(acceptedCodings(request));
}

const acceptedCodings = ({ headers }: FastifyRequest): string => String(headers['accept-encoding'] ?? '');

const isJson = (type: unknown): boolean => typeof type === 'string' && type.startsWith('application/json');

/** The coding that a client likes best (RFC 9110, section 12.5.3); undefined: none. */
export function acceptedCoding(header: string): Coding | undefined {
  const weights = parseWeights(header);
  const weightOf = (coding: string) => weights.get(coding) ?? weights.get('*') ?? 0;
  if (weightOf('br') > 0 && weightOf('br') >= weightOf('gzip')) return 'br';
  return weightOf('gzip') > 0 ? 'gzip' : undefined;
}

const unzip = promisify(gunzip);

/**
 * Decodes a body that was sent with `Content-Encoding: gzip`.
 * @throws HttpError 400 for another coding, or if it is not gzip; 413 if it is larger than the route allows
 */
export const decodeBody: preValidationHookHandler = (request, _reply, done) => {
  const coding = request.headers['content-encoding']?.trim().toLowerCase() ?? 'identity';
  if (coding === 'identity' || !Buffer.isBuffer(request.body)) return done();
  if (coding !== 'gzip' && coding !== 'x-gzip')
    return done(errors.malformedHeader('Content-Encoding', 'must be gzip or identity'));
  const limit = request.routeOptions.bodyLimit;
  unzip(request.body, { maxOutputLength: limit }).then(
    (decoded) => {
      request.body = decoded;
      done();
    },
    ({ code }: NodeJS.ErrnoException) =>
      done(code === 'ERR_BUFFER_TOO_LARGE' ? errors.tooLarge(limit) : errors.invalidJson('it is not gzip')),
  );
};
