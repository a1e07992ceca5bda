import { safeParse } from 'fast-content-type-parse';
import { errors } from '../errors.ts';
import { ExactNumber, jsonErrorOffset, parseExactJson, positionAt } from '../fields/index.ts';
import type { Body } from './body.ts';
import type { BodyRequirements } from './operation.ts';

const utf8 = new TextDecoder('utf-8', { fatal: true });

const byteOrderMark = Buffer.from('\ufeff');
const jsonTypes = ['application/json'];

/** Maximum size of a body, in bytes, unless the path has a limit of its own. */
export const defaultBodyLimit = 1024 * 1024;

/** Content types accepted for a JSON merge patch. */
export const mergePatchTypes: readonly string[] = [...jsonTypes, 'application/merge-patch+json'];

/**
 * Parses a body as a JSON object with exact numbers. A byte order mark is skipped.
 * @param bytes the raw body; undefined if the request does not have one
 * @throws HttpError 400 unless the body is a JSON object in UTF-8 with an accepted content type
 */
export function readBody(
  contentType: string | undefined,
  bytes: unknown,
  { types = jsonTypes, maxValues, acceptsEmpty }: BodyRequirements = {},
): Body {
  if (acceptsEmpty && (!Buffer.isBuffer(bytes) || bytes.length === 0)) return {};
  if (!Buffer.isBuffer(bytes) || bytes.length === 0) throw errors.invalidJson('the body is empty');
  const { type, parameters } = safeParse(contentType?.trim() ?? '');
  if (!types.includes(type) || !/^utf-?8$/i.test(parameters.charset ?? 'utf-8')) {
    throw errors.invalidJson(`the Content-Type must be ${types.join(' or ')}`);
  }
  const value = readJson(bytes, { maxValues });
  if (typeof value !== 'object' || value === null || Array.isArray(value) || value instanceof ExactNumber) {
    throw errors.invalidJson('the body must be an object');
  }
  return value as Body;
}

/**
 * Parses bytes as JSON with exact numbers, regardless of their content type.
 * @param options `line`: number of the first line, for error messages
 * @throws HttpError 400 unless the bytes are JSON in UTF-8 and within the parser's limits
 */
export function readJson(
  bytes: Buffer,
  { maxValues, line = 1 }: { readonly maxValues?: number | undefined; readonly line?: number } = {},
): unknown {
  const text = decode(bytes);
  try {
    return parseExactJson(text, maxValues);
  } catch (cause) {
    throw errors.invalidJson(cause instanceof RangeError ? `it ${cause.message}` : syntaxError(bytes, line));
  }
}

/** Describes a syntax error without quoting the body, which can contain personal data. */
function syntaxError(bytes: Buffer, firstLine: number): string {
  const isMarked = bytes.subarray(0, byteOrderMark.length).equals(byteOrderMark);
  const json = isMarked ? bytes.subarray(byteOrderMark.length) : bytes;
  const offset = jsonErrorOffset(json) ?? json.length;
  if (offset === json.length) return 'it ends unexpectedly';
  const { line, column } = positionAt(json, offset);
  return `unexpected character at line ${firstLine + line - 1}, column ${column}`;
}

function decode(bytes: Buffer): string {
  try {
    return utf8.decode(bytes);
  } catch {
    throw errors.invalidJson('the body is not UTF-8');
  }
}
