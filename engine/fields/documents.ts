import { type ErrorObject, Ajv2020 as SchemaValidator, type ValidateFunction } from 'ajv/dist/2020.js';
import { textCell, valueCells, verbatim } from './encode.ts';
import { decimalText, ExactNumber, parseExactJson } from './exact-json.ts';
import { isStorable } from './string.ts';
import { type FieldType, type JsonSchema, trimmedText } from './type.ts';

/** Maximum size of a document in bytes of JSON. */
const maxBytes = 65_536;

/** Returns a JSON value as text, without rounding its numbers. */
export const documentText = (value: unknown, space?: number): string =>
  JSON.stringify(
    value,
    (_, item: unknown) => (item instanceof ExactNumber ? JSON.rawJSON(item.source) : item),
    space,
  );

/** Parses JSON text. Returns other text unchanged, so that validation rejects it. */
export function parseDocument(text: string): unknown {
  try {
    return parseExactJson(text);
  } catch {
    return text;
  }
}

/** How JSON values are written in responses, CSV files, forms and pages. */
export const documentFormats: Pick<FieldType, 'encode' | 'csv' | 'form' | 'display'> = {
  encode: verbatim,
  csv: valueCells(textCell, parseDocument),
  form: {
    control: 'lines',
    notation: { kind: 'json' },
    parse: (text) => (trimmedText(text) === undefined ? undefined : parseDocument(text)),
    format: (value) => documentText(value, 2),
  },
  display: (text) => text.replace(/\s*\n\s*/g, ' '),
};

const isContainer = (value: unknown): value is object =>
  typeof value === 'object' && value !== null && !(value instanceof ExactNumber);

/** Returns whether PostgreSQL can store all strings and numbers in a JSON value. */
function isStorableJson(root: unknown): boolean {
  const queue = [root];
  for (const value of queue) {
    if (typeof value === 'string' && !isStorable(value)) return false;
    if ((typeof value === 'number' || value instanceof ExactNumber) && decimalText(value) === undefined)
      return false;
    if (!isContainer(value)) continue;
    if (!Array.isArray(value) && !Object.keys(value).every(isStorable)) return false;
    queue.push(...Object.values(value));
  }
  return true;
}

/** Returns a JSON value with JavaScript numbers, which schemas compare. */
function withNumbers(value: unknown): unknown {
  if (value instanceof ExactNumber) return Number(value.source);
  if (Array.isArray(value)) return value.map(withNumbers);
  return isContainer(value)
    ? Object.fromEntries(Object.entries(value).map(([key, item]) => [key, withNumbers(item)]))
    : value;
}

/** Returns the reason that a value is not a valid document, which follows the field's name, or undefined. */
export type DocumentCheck = (value: unknown) => string | undefined;

/** A part of a document that does not match its schema. */
interface DocumentIssue {
  /** Location of the part, for example ".pages[2].title"; empty for the whole document. */
  readonly path: string;
  /** Reason, which follows the part's name, for example "must be a string". */
  readonly reason: string;
}

const expected = `a JSON object or array of at most ${maxBytes / 1024} KiB`;

/**
 * Compiles a check of a document's size and content, which returns the first issue.
 * @throws Error if the schema is invalid
 */
export function documentIssue(schema: JsonSchema | undefined): (value: unknown) => DocumentIssue | undefined {
  const validate = schema && compileSchema(schema);
  const wrong = (reason: string): DocumentIssue => ({ path: '', reason });
  return (value) => {
    if (!isContainer(value)) return wrong(`must be ${expected}`);
    if (!isStorableJson(value))
      return wrong('must not contain U+0000, lone surrogates or numbers with more than 100 digits');
    if (Buffer.byteLength(documentText(value)) > maxBytes) return wrong(`must be ${expected}`);
    if (validate === undefined || validate(withNumbers(value))) return undefined;
    const [error] = validate.errors ?? [];
    return error === undefined
      ? wrong('is invalid')
      : { path: pathOf(error.instancePath), reason: reasonOf(error) };
  };
}

/** Returns a check of a document's size and content. */
function documentCheck(schema: JsonSchema | undefined): DocumentCheck {
  const check = documentIssue(schema);
  return (value) => {
    const issue = check(value);
    return issue && `${issue.path} ${issue.reason}`;
  };
}

/** Returns the location of a part of a document, for example ".pages[2].title". @param pointer its JSON pointer (RFC 6901) */
const pathOf = (pointer: string): string =>
  pointer
    .split('/')
    .slice(1)
    .map((part) => part.replaceAll('~1', '/').replaceAll('~0', '~').slice(0, 60))
    .map((part) => (/^\d+$/.test(part) ? `[${part}]` : `.${part}`))
    .join('');

/** Describes an error of a schema, for example "must be a string". */
function reasonOf({ keyword, params, message }: ErrorObject): string {
  switch (keyword) {
    case 'type':
      return `must be ${articles[[params.type].flat().join()] ?? [params.type].flat().join(' or ')}`;
    case 'required':
      return `must contain "${params.missingProperty}"`;
    case 'additionalProperties':
    case 'unevaluatedProperties':
      return `must not contain "${String(params.additionalProperty ?? params.unevaluatedProperty).slice(0, 60)}"`;
    case 'enum':
      return `must be one of ${(params.allowedValues as readonly unknown[]).map((item) => JSON.stringify(item)).join(', ')}`;
    default:
      return message ?? 'is invalid';
  }
}

/** Types of JSON with their articles. */
const articles: Readonly<Record<string, string>> = {
  string: 'a string',
  number: 'a number',
  integer: 'an integer',
  boolean: 'true or false',
  object: 'an object',
  array: 'a list',
  null: 'null',
};

/**
 * Compiles the schema of a field's documents.
 * @throws Error if it is invalid. The message completes "the schema is invalid: …"
 */
function compileSchema(schema: JsonSchema): ValidateFunction {
  // Formats are annotations, as in JSON Schema 2020-12.
  return new SchemaValidator({
    allowUnionTypes: true,
    strictTypes: false,
    validateFormats: false,
    logger: false,
  }).compile(schema);
}

/** Returns the reason that a schema is invalid, or undefined. */
export function schemaIssue(schema: JsonSchema): string | undefined {
  try {
    compileSchema(schema);
    return undefined;
  } catch (cause) {
    return (cause as Error).message
      .replace(/^(schema is invalid|strict mode): /, '')
      .replaceAll('data/', '/');
  }
}

/**
 * Returns the type of a JSON object or array, stored as `jsonb`: the order of keys and the notation of numbers can change.
 * @param schema a JSON Schema (2020-12) that all documents meet; undefined if they can have any content
 */
export function documentType(schema: JsonSchema | undefined): FieldType {
  return {
    expected,
    expects: { type: 'document' },
    json: { type: ['object', 'array'] },
    body: () => ({ document: documentCheck(schema) }),
    columns: () => [{ suffix: '', type: 'jsonb', sample: `'{}'` }],
    write: (value) => [documentText(value)],
    ...documentFormats,
    nested: true,
    examples: [{ rooms: 3 }],
  };
}
