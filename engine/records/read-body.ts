import { safeParse } from 'fast-content-type-parse';
import { errors } from '../errors.ts';
import { ExactNumber, parseExactJson } from '../fields/index.ts';
import type { Body } from './body.ts';

const utf8 = new TextDecoder('utf-8', { fatal: true });

const jsonTypes = ['application/json'];

/** The content types of a JSON merge patch. */
export const mergePatchTypes: readonly string[] = [...jsonTypes, 'application/merge-patch+json'];

/**
 * Parses a body as a JSON object with exact numbers. A byte order mark is skipped.
 * @param bytes the raw body; undefined if the request does not have one
 * @param types accepted content types
 * @param maxValues maximum number of values, if it differs from the default
 * @throws HttpError 400 unless the body is a JSON object in UTF-8 with an accepted content type
 */
export function readBody(
  contentType: string | undefined,
  bytes: unknown,
  types: readonly string[] = jsonTypes,
  maxValues?: number,
): Body {
  if (!Buffer.isBuffer(bytes) || bytes.length === 0) throw errors.invalidJson('the body is empty');
  const { type, parameters } = safeParse(contentType?.trim() ?? '');
  if (!types.includes(type) || !/^utf-?8$/i.test(parameters.charset ?? 'utf-8')) {
    throw errors.invalidJson(`the Content-Type must be ${types.join(' or ')}`);
  }
  const value = readJson(bytes, maxValues);
  if (typeof value !== 'object' || value === null || Array.isArray(value) || value instanceof ExactNumber) {
    throw errors.invalidJson('the body must be an object');
  }
  return value as Body;
}

/**
 * Parses bytes as JSON with exact numbers, independent of their content type.
 * @throws HttpError 400 unless they are JSON in UTF-8, within the parser's limits
 */
export function readJson(bytes: Buffer, maxValues?: number): unknown {
  const text = decode(bytes);
  try {
    return parseExactJson(text, maxValues);
  } catch (cause) {
    // V8's messages quote the body, which can contain personal data.
    const reason = cause instanceof RangeError ? cause.message : 'is not valid JSON';
    throw errors.invalidJson(`it ${reason}`);
  }
}

function decode(bytes: Buffer): string {
  try {
    return utf8.decode(bytes);
  } catch {
    throw errors.invalidJson('the body is not UTF-8');
  }
}
