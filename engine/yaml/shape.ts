import { type AnySchema, type ErrorObject, Ajv2020 as Validator } from 'ajv/dist/2020.js';
import type { Parsed, YamlIssue } from './load.ts';
import { didYouMean, formatValue, nearest, snakeCase, suggestion } from './words.ts';

/** Returns whether a file matches a schema, and adds every violation to `issues`. */
type Shape<T> = (parsed: Parsed, issues: YamlIssue[]) => parsed is Parsed & { data: T };

/**
 * Returns advice on an unknown word or a wrong value, as in `unknown key "references". Use …`.
 * @param value the value of the key
 */
export type AlternativeFor = (
  word: string,
  path: readonly (string | number)[],
  value?: unknown,
) => string | undefined;

/** Skips meta-schema validation, which would slow down every start. Strict mode rejects unknown keywords. */
const withoutMetaSchema = { validateSchema: false } as const;

/** Skips code optimization. Each file is checked only once, so optimizing would take longer than it saves. */
const withoutOptimization = { code: { optimize: false } } as const;

/**
 * Compiles a JSON Schema into a check for YAML files. A subschema's `x-expected` completes the message
 * "<key> must be …".
 */
export function shape<T>(schema: AnySchema, advice: AlternativeFor = () => undefined): Shape<T> {
  const validate = new Validator({
    allErrors: true,
    verbose: true,
    strictTypes: false,
    ...withoutMetaSchema,
    ...withoutOptimization,
  })
    .addVocabulary(['x-expected'])
    .compile(schema);
  return (parsed, issues): parsed is Parsed & { data: T } => {
    if (validate(parsed.data)) return true;
    const errors = (validate.errors ?? []).filter(isReportedDirectly);
    const misnamedPaths = errors
      .filter(({ keyword }) => keyword === 'propertyNames')
      .map(({ instancePath, params }) => `${instancePath}/${escapePointer(String(params.propertyName))}`);
    const misspelledKeys = errors
      .filter(({ keyword }) => keyword === 'additionalProperties')
      .map(({ instancePath, params, parentSchema }) => {
        const intendedKey = findIntendedKey(
          String(params.additionalProperty),
          (parentSchema ?? {}) as Subschema,
        );
        return `${instancePath} ${intendedKey}`;
      });
    const advisedPaths = errors.flatMap(({ keyword, instancePath, params, data }) => {
      const word = String(params.additionalProperty);
      const path = pathOf(instancePath);
      const isAdvised = keyword === 'additionalProperties' && typeof path.at(-1) === 'number';
      return isAdvised && advice(word, path, (data as Readonly<Record<string, unknown>>)[word]) !== undefined
        ? [instancePath]
        : [];
    });
    for (const error of errors) {
      // If there is advice about an unknown key in a list item, errors about the item's missing keys are
      // redundant.
      if (error.keyword === 'required' && advisedPaths.includes(error.instancePath)) continue;
      // A misspelled key is reported as misspelled, not as missing.
      const missing = `${error.instancePath} ${error.params.missingProperty}`;
      if (error.keyword === 'required' && misspelledKeys.includes(missing)) continue;
      // Values below an invalid name will be checked after the name is fixed.
      if (misnamedPaths.some((path) => `${error.instancePath}/`.startsWith(`${path}/`))) continue;
      const rule = (validate.errors ?? []).find(
        ({ keyword, instancePath, propertyName }) =>
          keyword === 'pattern' &&
          instancePath === error.instancePath &&
          propertyName === error.params.propertyName,
      );
      issues.push(...describe(parsed, error, advice, String(rule?.schema ?? '')));
    }
    return false;
  };
}

/**
 * Returns whether an error is reported on its own. Errors in `anyOf` branches and in rules for names are reported by
 * their parent schema.
 */
const isReportedDirectly = ({ schemaPath, keyword, propertyName }: ErrorObject): boolean =>
  !/\/(oneOf|anyOf)\/\d+\//.test(schemaPath) && (keyword === 'propertyNames' || propertyName === undefined);

/** Parses a JSON Pointer. */
const pathOf = (pointer: string): (string | number)[] =>
  pointer
    .split('/')
    .slice(1)
    .map((step) => (/^\d+$/.test(step) ? Number(step) : step.replaceAll('~1', '/').replaceAll('~0', '~')));

/** Escapes a segment of a JSON Pointer. */
const escapePointer = (step: string): string => step.replaceAll('~', '~0').replaceAll('/', '~1');

/** Keywords in a subschema that are used in messages. */
interface Subschema {
  readonly 'x-expected'?: string;
  readonly properties?: Readonly<Record<string, unknown>>;
}

/**
 * Converts an Ajv error to issues. Returns an empty list for an error caused by another error.
 * @param pattern the pattern for names, if a name is invalid
 */
function describe(parsed: Parsed, error: ErrorObject, advice: AlternativeFor, pattern: string): YamlIssue[] {
  const path = pathOf(error.instancePath);
  const last = path.at(-1) ?? 'the file';
  const name = typeof last === 'number' ? `item ${last + 1} of ${path.at(-2)}` : last;
  const parentSchema = (error.parentSchema ?? {}) as Subschema;
  const atValue = (message: string) => [parsed.issueAt({ path }, message)];
  const atKey = (key: string, message: string) => [
    parsed.issueAt({ path: [...path, key], key: true }, message),
  ];
  switch (error.keyword) {
    case 'additionalProperties': {
      // The parser converts the key `null` to an empty string.
      const key = String(error.params.additionalProperty) || 'null';
      return atKey(
        key,
        unknownKey(key, path, error.data as Readonly<Record<string, unknown>>, parentSchema, advice),
      );
    }
    // The failed `then` or `else` branch is reported instead.
    case 'if':
      return [];
    case 'required':
      return [parsed.issueAt({ path, key: true }, `${name} needs "${error.params.missingProperty}"`)];
    case 'propertyNames': {
      const key = String(error.params.propertyName);
      const rule = error.schema as Subschema & { readonly pattern?: string };
      if (missingSpacePattern.test(key)) return atKey(key, missingSpaceMessage(key));
      return atKey(key, `"${key}" must be ${rule['x-expected'] ?? 'another name'}${snakeHint(key, pattern)}`);
    }
    case 'enum': {
      const allowedValues = error.params.allowedValues as string[];
      const word = String(error.data);
      const hint = nearest(word, allowedValues);
      const adviceText = advice(word, path);
      const suffix = adviceText === undefined ? (hint ? `. ${didYouMean(hint)}` : '') : `. ${adviceText}`;
      return atValue(`${name} must be one of ${allowedValues.join(', ')}${suffix}`);
    }
    case 'uniqueItems':
      return repeatedItems(error.data as readonly unknown[]).map(({ index, value }) =>
        parsed.issueAt({ path: [...path, index] }, `${formatValue(value)} is listed twice in ${name}`),
      );
    case 'type':
      if (
        error.schema === 'object' &&
        typeof error.data === 'string' &&
        missingSpacePattern.test(error.data)
      ) {
        return atValue(missingSpaceMessage(error.data));
      }
      return atValue(
        `${name} must be ${parentSchema['x-expected'] ?? typeWords(error.schema)}${describeActual(error, advice(String(last), path, error.data))}`,
      );
    case 'pattern': {
      const expected = parentSchema['x-expected'] ?? 'another text';
      return atValue(`${name} must be ${expected}${snakeHint(String(error.data), String(error.schema))}`);
    }
    default:
      return atValue(
        `${name} must ${parentSchema['x-expected'] ? `be ${parentSchema['x-expected']}` : limitWords(error)}`,
      );
  }
}

/** Returns the message for an unknown key. */
function unknownKey(
  key: string,
  path: readonly (string | number)[],
  data: Readonly<Record<string, unknown>>,
  parentSchema: Subschema,
  advice: AlternativeFor,
): string {
  if (missingSpacePattern.test(key)) return missingSpaceMessage(key);
  const adviceText = advice(key, path, data[key]);
  if (adviceText !== undefined) return `unknown key "${key}". ${adviceText}`;
  const hint = suggestion(key, Object.keys(parentSchema.properties ?? {}));
  if (hint === '' && data[key] === null) {
    return `"${key}" is read as a key without a value. Text that contains a comma needs quotes.`;
  }
  return `unknown key "${key}"${hint}`;
}

const missingSpacePattern = /^([\w-]+):(\S.*)$/;
const missingSpaceMessage = (key: string): string => `missing space after the colon in "${key}"`;

/** Returns the known key that was probably intended by an unknown key. */
const findIntendedKey = (key: string, { properties = {} }: Subschema): string | undefined =>
  missingSpacePattern.exec(key)?.[1] ?? nearest(key, Object.keys(properties));

/** Suggests a snake-case version of the name if it matches the pattern. */
function snakeHint(name: string, pattern: string): string {
  const snake = snakeCase(name);
  const isName = snake !== name && snake.length > 1 && /^[\w .-]{2,40}$/.test(name);
  return isName && new RegExp(pattern, 'u').test(snake) ? `. ${didYouMean(snake)}` : '';
}

/** Returns the items that are equal to an earlier item. */
function repeatedItems(items: readonly unknown[]): { index: number; value: unknown }[] {
  const seen = new Set<string>();
  return items.flatMap((value, index) => {
    const text = JSON.stringify(value);
    if (!seen.has(text)) {
      seen.add(text);
      return [];
    }
    return [{ index, value }];
  });
}

const typeNames: Readonly<Record<string, string>> = {
  object: 'a map (key: value)',
  array: 'a list, for example [ a, b ]',
  string: 'a string',
  number: 'a number',
  integer: 'an integer',
  boolean: 'true or false',
};
const typeWords = (types: unknown): string =>
  [types]
    .flat()
    .map((type) => typeNames[String(type)] ?? String(type))
    .join(' or ');

/** Describes a value of the wrong type, and adds advice or the same value converted to the right type. */
function describeActual({ schema, parentSchema, data }: ErrorObject, advice: string | undefined): string {
  const hint =
    advice === undefined
      ? alternativeHint(data, [schema].flat() as string[], parentSchema?.pattern)
      : `. ${advice}`;
  return data === null || data === undefined ? `, but is empty${hint}` : `, not ${formatValue(data)}${hint}`;
}

/**
 * Suggests the same value converted to the right type.
 * @param pattern a regular expression that strings must match
 */
function alternativeHint(data: unknown, [type, ...others]: readonly string[], pattern: unknown): string {
  if (others.length > 0 || data === undefined || typeof data === 'object') return '';
  const text = String(data);
  if (type === 'string') {
    const isValid = typeof pattern !== 'string' || new RegExp(pattern, 'u').test(text);
    return isValid ? `. Write "${text}".` : '';
  }
  if (type === 'array') return typeof data === 'boolean' ? '' : `. Write [ ${text} ].`;
  if (type === 'boolean' && /^(yes|on|true|1)$/i.test(text)) return '. Write true.';
  if (type === 'boolean' && /^(no|off|false|0)$/i.test(text)) return '. Write false.';
  return type === 'integer' && /^\d+$/.test(text) ? `. Write ${text} without quotes.` : '';
}

/** Completes the message "<key> must …" for a schema limit. */
function limitWords({ keyword, params, message }: ErrorObject): string {
  const limit = Number(params.limit);
  const items = `item${limit === 1 ? '' : 's'}`;
  switch (keyword) {
    case 'minItems':
      return `have at least ${limit} ${items}`;
    case 'maxItems':
      return `have at most ${limit} ${items}`;
    case 'minLength':
      return limit === 1 ? 'not be empty' : `have at least ${limit} characters`;
    case 'maxLength':
      return `have at most ${limit} characters`;
    case 'minimum':
      return `be at least ${limit}`;
    case 'maximum':
      return `be at most ${limit}`;
    default:
      return String(message).replace(/^must /, '');
  }
}

type Schema = Readonly<Record<string, unknown>>;

/** Returns a schema that requires `consequence` to match if `condition` matches. */
export const implies = (condition: Schema, consequence: Schema): Schema => ({
  if: condition,
  // biome-ignore lint/suspicious/noThenProperty: a JSON Schema keyword
  then: consequence,
});

/** Returns a condition that requires a key to have this value. */
export const hasKey = (key: string, value: unknown): Schema => ({
  required: [key],
  properties: { [key]: { const: value } },
});

/** Returns a schema that accepts only the given words. Without words, it rejects every value. */
export const oneOfSchema = (words: readonly string[]): Schema =>
  words.length > 0 ? { enum: words } : { not: {} };
