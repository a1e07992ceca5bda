import { Readable } from 'node:stream';
import { promisify } from 'node:util';
import { brotliCompress, constants, createBrotliCompress, createGzip, gunzip, gzip } from 'node:zlib';
import type { FastifyInstance, preValidationHookHandler } from 'fastify';
import fastifyPlugin from 'fastify-plugin';
import { errors } from '../errors.ts';

/** Smaller bodies fit into a packet as they are; larger ones take more of the processor than they save. In bytes. */
const [smallest, largest] = [1024, 512 * 1024];
/** Fast: a list is compressed for one reader. */
const brotli = { params: { [constants.BROTLI_PARAM_QUALITY]: 4 } };

const codings = {
  br: { whole: promisify(brotliCompress), stream: createBrotliCompress, options: brotli },
  gzip: { whole: promisify(gzip), stream: createGzip, options: {} },
} as const;

/**
 * Compresses JSON that is read: lists and the description. Not single records, whose entity tag names their bytes, and
 * not pages, whose forms hold secrets.
 */
export const compression = fastifyPlugin(
  async (app: FastifyInstance, { compress }: { readonly compress: boolean }) => {
    if (!compress) return;
    app.addHook('onSend', async (request, reply, payload) => {
      if (request.method !== 'GET' || reply.statusCode !== 200 || reply.hasHeader('etag')) return payload;
      if (reply.hasHeader('content-encoding') || !isJson(reply.getHeader('content-type'))) return payload;
      // A large body is a stream already, which gives its bytes as fast as the client reads them.
      const isStream = payload instanceof Readable;
      const isWhole = typeof payload === 'string' || Buffer.isBuffer(payload);
      const size = isWhole ? payload.length : Number(reply.getHeader('content-length'));
      if (!(isStream || isWhole) || !(size >= smallest && size <= largest)) return payload;
      const vary = reply.getHeader('vary');
      reply.header('vary', vary === undefined ? 'accept-encoding' : `${String(vary)}, accept-encoding`);
      const coding = acceptedCoding(String(request.headers['accept-encoding'] ?? ''));
      if (coding === undefined) return payload;
      const { whole, stream, options } = codings[coding];
      reply.header('content-encoding', coding).removeHeader('content-length');
      return isStream ? payload.pipe(stream(options)) : whole(payload, options);
    });
  },
  { name: 'compression', fastify: '5.x', dependencies: ['memory'] },
);

const isJson = (type: unknown): boolean => typeof type === 'string' && type.startsWith('application/json');

/** The coding that a client likes best (RFC 9110, section 12.5.3); undefined: none. */
export function acceptedCoding(header: string): keyof typeof codings | undefined {
  const weights = new Map(
    header
      .toLowerCase()
      .split(',')
      .map((element) => {
        const [name = '', ...parameters] = element.split(';').map((part) => part.trim());
        const weight = parameters.find((parameter) => parameter.startsWith('q='));
        return [name, weight === undefined ? 1 : Number(weight.slice(2))];
      }),
  );
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
