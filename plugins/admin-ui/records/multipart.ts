import type { IncomingHttpHeaders } from 'node:http';
import type { Readable } from 'node:stream';
import { Busboy, type BusboyInstance } from '@fastify/busboy';
import { errors, HttpError } from '../../../engine/errors.ts';
import type { Form } from '../shell/index.ts';
import { maxFile } from './import-file.ts';

/**
 * Maximum size of a form with a file, in bytes. A checked file is resubmitted in base64, possibly along with
 * another file.
 */
export const maxForm = 3 * maxFile;
/** Number of bytes within which a form's token must appear. */
const maxBeforeToken = 64 * 1024;
/**
 * Number of bytes parsed before limits are checked. Small, because hundreds of empty parts take milliseconds to parse.
 */
const sliceBytes = 4 * 1024;
/** Maximum length of a field name, in characters. */
const maxName = 100;
/** Maximum number of columns whose fields can be chosen. Each is a part of the form. */
export const maxColumns = 100;
const limits = {
  parts: maxColumns + 20,
  headerPairs: 10,
  headerSize: 4096,
  fieldSize: 4096,
  // Leaves room for a base64-encoded file slightly above the limit, so that the page can report its size.
  fileSize: Math.ceil((maxFile * 4) / 3) + 4,
};

const unreadable = () => errors.invalidCsv('the form could not be read');

/** A form with a file. Until its token has been verified, only its first bytes are read. */
export class MultipartForm {
  /** The form's token, or an empty string if the form does not start with a token. */
  readonly _csrf: string;
  private readonly incoming: Incoming;

  private constructor(incoming: Incoming) {
    this.incoming = incoming;
    this._csrf = incoming.fields.get('_csrf') ?? '';
  }

  /** Reads a form up to its token. @throws HttpError 400 or 413 */
  static async start(headers: IncomingHttpHeaders, payload: Readable): Promise<MultipartForm> {
    if (Number(headers['content-length'] ?? 0) > maxForm) throw errors.tooLarge(maxForm);
    const incoming = new Incoming(headers, payload);
    await incoming.readUntil(({ fields, size }) => fields.has('_csrf') || size > maxBeforeToken);
    return new MultipartForm(incoming);
  }

  /** Reads the rest of the form. @throws HttpError 400 or 413 */
  async rest(): Promise<{ readonly form: Form; readonly file: Buffer | undefined }> {
    await this.incoming.readUntil(() => false);
    return { form: Object.fromEntries(this.incoming.fields), file: this.incoming.file };
  }

  /** Discards the rest of the form, so that the connection can serve the next request. */
  async discard(): Promise<void> {
    await this.incoming.discard();
  }
}

/** The body of a multipart form, parsed as far as required. */
class Incoming {
  readonly fields = new Map<string, string>();
  file: Buffer | undefined;
  size = 0;
  private readonly parser: BusboyInstance;
  private readonly payload: Readable;
  private readonly chunks: AsyncIterator<Buffer>;
  private readonly failure = Promise.withResolvers<never>();
  private readonly completion: Promise<void>;

  constructor(headers: IncomingHttpHeaders, payload: Readable) {
    this.payload = payload;
    this.chunks = payload.iterator({ destroyOnReturn: false });
    const fail = () => this.failure.reject(unreadable());
    this.failure.promise.catch(() => {});
    try {
      this.parser = new Busboy({
        headers: { ...headers, 'content-type': headers['content-type'] ?? '' },
        limits,
        isPartAFile: (name, _type, filename) => filename !== undefined || name === 'content',
      });
    } catch {
      throw unreadable();
    }
    this.completion = new Promise((resolve) => this.parser.once('finish', resolve));
    this.parser.once('error', fail);
    this.parser.once('partsLimit', fail);
    this.parser.on('field', (name, value, _nameTruncated, isTruncated) => {
      if (isTruncated || !isName(name)) fail();
      else this.fields.set(name, value);
    });
    this.parser.on('file', (name, stream) => {
      const chunks: Buffer[] = [];
      stream.on('data', (chunk: Buffer) => chunks.push(chunk));
      stream.once('error', fail);
      stream.once('end', () => {
        if (!isName(name)) return fail();
        const content = Buffer.concat(chunks);
        if (name === 'file') this.file = content;
        else this.fields.set(name, content.toString());
      });
    });
  }

  /** Reads until a condition is met or the form ends. @throws HttpError 400 or 413 */
  async readUntil(isDone: (incoming: Incoming) => boolean): Promise<void> {
    try {
      while (!isDone(this)) {
        const { value: chunk, done } = await this.chunks.next();
        if (done === true) {
          this.parser.end();
          return await Promise.race([this.completion, this.failure.promise]);
        }
        this.size += chunk.length;
        if (this.size > maxForm) throw errors.tooLarge(maxForm);
        for (let offset = 0; offset < chunk.length; offset += sliceBytes) {
          const slice = chunk.subarray(offset, offset + sliceBytes);
          const write = new Promise<void>((resolve) => this.parser.write(slice, () => resolve()));
          await Promise.race([write, this.failure.promise]);
        }
      }
    } catch (cause) {
      if (cause instanceof HttpError) await this.discard();
      throw cause;
    }
  }

  async discard(): Promise<void> {
    await this.chunks.return?.();
    this.payload.resume();
  }
}

/** Returns whether a part has a valid name. The parser reports a missing name as undefined. */
const isName = (name: string | undefined): boolean => name !== undefined && name.length <= maxName;
