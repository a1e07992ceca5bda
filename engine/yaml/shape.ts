import { type AnySchema, type ErrorObject, Ajv2020 as Validator } from 'ajv/dist/2020.js';
import type { Parsed, YamlIssue } from './load.ts';
import { didYouMean, excerpt, nearest, snakeCase, suggestion } from './words.ts';

/** Whether a file matches a schema; every violation is added to `problems`. */
export type Shape<T> = (parsed: Parsed, problems: YamlIssue[]) => parsed is Parsed & { data: T };

/**
 * What to say of a word that the schema does not know, as in `unknown key "references": use …`.
 * @param value what stands under the key
 */
export type AlternativeFor = (
  word: string,
  path: readonly (string | number)[],
  value?: unknown,
) => string | undefined;

/** The schema is ours, and strict mode refuses unknown keywords: compiling the meta-schema would only cost each start time. */
const ownSchema = { validateSchema: false } as const;

/** Few files are checked, once each: optimizing the code of the check costs more than it gives. */
const rarelyRun = { code: { optimize: false } } as const;

/**
 * Compiles a JSON Schema into a check of YAML files. A subschema's `x-expected` completes "<key> must be …".
 */
export function shape<T>(schema: AnySchema, advice: AlternativeFor = () => undefined): Shape<T> {
  const validate = new Validator({
    allErrors: true,
    verbose: true,
    strictTypes: false,
    ...ownSchema,
    ...rarelyRun,
  })
    .addVocabulary(['x-expected'])
    .compile(schema);
  return (parsed, problems): parsed is Parsed & { data: T } => {
    if (validate(parsed.data)) return true;
    const errors = (validate.errors ?? []).filter(isOfItsOwn);
    const misnamed = errors
      .filter(({ keyword }) => keyword === 'propertyNames')
      .map(({ instancePath, params }) => `${instancePath}/${escaped(String(params.propertyName))}`);
    const misspelt = errors
      .filter(({ keyword }) => keyword === 'additionalProperties')
      .map(({ instancePath, params, parentSchema }) => {
        const meant = meantKey(String(params.additionalProperty), (parentSchema ?? {}) as Subschema);
        return `${instancePath} ${meant}`;
      });
    for (const error of errors) {
      // A misspelt key is reported as such, not as one that is missing.
      const missing = `${error.instancePath} ${error.params.missingProperty}`;
      if (error.keyword === 'required' && misspelt.includes(missing)) continue;
      // What stands under a wrong name is read again once that is right.
      if (misnamed.some((path) => `${error.instancePath}/`.startsWith(`${path}/`))) continue;
      const rule = (validate.errors ?? []).find(
        ({ keyword, instancePath, propertyName }) =>
          keyword === 'pattern' &&
          instancePath === error.instancePath &&
          propertyName === error.params.propertyName,
      );
      problems.push(...describe(parsed, error, advice, String(rule?.schema ?? '')));
    }
    return false;
  };
}

/** Not a branch of a choice, and not a key's own rule: the choice and the name themselves are reported. */
const isOfItsOwn = ({ schemaPath, keyword, propertyName }: ErrorObject): boolean =>
  !/\/(oneOf|anyOf)\/\d+\//.test(schemaPath) && (keyword === 'propertyNames' || propertyName === undefined);

const escaped = (step: string): string => step.replaceAll('~', '~0').replaceAll('/', '~1');

interface Subschema {
  readonly 'x-expected'?: string;
  readonly properties?: Readonly<Record<string, unknown>>;
}

/**
 * Ajv's error as messages with their positions; none for errors that only follow from another.
 * @param pattern of the names, where a name is wrong
 */
function describe(parsed: Parsed, error: ErrorObject, advice: AlternativeFor, pattern: string): YamlIssue[] {
  const path = error.instancePath
    .split('/')
    .slice(1)
    .map((step) => (/^\d+$/.test(step) ? Number(step) : step.replaceAll('~1', '/').replaceAll('~0', '~')));
  const last = path.at(-1) ?? 'the file';
  const name = typeof last === 'number' ? `item ${last + 1} of ${path.at(-2)}` : last;
  const around = (error.parentSchema ?? {}) as Subschema;
  const atValue = (message: string) => [parsed.problem({ path }, message)];
  const atKey = (key: string, message: string) => [
    parsed.problem({ path: [...path, key], key: true }, message),
  ];
  switch (error.keyword) {
    case 'additionalProperties': {
      const key = String(error.params.additionalProperty);
      return atKey(
        key,
        unknownKey(key, path, error.data as Readonly<Record<string, unknown>>, around, advice),
      );
    }
    // The branch that does not hold is reported.
    case 'if':
      return [];
    case 'required':
      return [parsed.problem({ path, key: true }, `${name} lacks "${error.params.missingProperty}"`)];
    case 'propertyNames': {
      const key = String(error.params.propertyName);
      const rule = error.schema as Subschema & { readonly pattern?: string };
      if (withoutSpace.test(key)) return atKey(key, spaceMissing(key));
      return atKey(key, `"${key}" must be ${rule['x-expected'] ?? 'another name'}${snakeHint(key, pattern)}`);
    }
    case 'enum': {
      const allowed = error.params.allowedValues as string[];
      const word = String(error.data);
      const hint = nearest(word, allowed);
      const advised = advice(word, path);
      const end = advised === undefined ? (hint ? didYouMean(hint) : '') : `: ${advised}`;
      return atValue(`${name} must be one of ${allowed.join(', ')}${end}`);
    }
    case 'uniqueItems':
      return repeated(error.data as readonly unknown[]).map(({ index, value }) =>
        parsed.problem({ path: [...path, index] }, `${excerpt(value)} is listed twice in ${name}`),
      );
    case 'type':
      if (error.schema === 'object' && typeof error.data === 'string' && withoutSpace.test(error.data)) {
        return atValue(spaceMissing(error.data));
      }
      return atValue(`${name} must be ${around['x-expected'] ?? typeWords(error.schema)}${given(error)}`);
    case 'pattern': {
      const expected = around['x-expected'] ?? 'another text';
      return atValue(`${name} must be ${expected}${snakeHint(String(error.data), String(error.schema))}`);
    }
    default:
      return atValue(
        `${name} must ${around['x-expected'] ? `be ${around['x-expected']}` : limitWords(error)}`,
      );
  }
}

/** What a key that the schema does not know is probably about. */
function unknownKey(
  key: string,
  path: readonly (string | number)[],
  data: Readonly<Record<string, unknown>>,
  around: Subschema,
  advice: AlternativeFor,
): string {
  if (withoutSpace.test(key)) return spaceMissing(key);
  const advised = advice(key, path, data[key]);
  if (advised !== undefined) return `unknown key "${key}": ${advised}`;
  const hint = suggestion(key, Object.keys(around.properties ?? {}));
  if (hint === '' && data[key] === null) {
    return `"${key}" is read as a key without a value; a text that contains a comma needs quotes`;
  }
  return `unknown key "${key}"${hint}`;
}

const withoutSpace = /^([\w-]+):(\S.*)$/;
const spaceMissing = (key: string): string => `a space is missing after the colon of "${key}"`;

/** The key that another one was meant to be. */
const meantKey = (key: string, { properties = {} }: Subschema): string | undefined =>
  withoutSpace.exec(key)?.[1] ?? nearest(key, Object.keys(properties));

/** The same name as definitions write names, where that matches the pattern. */
function snakeHint(name: string, pattern: string): string {
  const snake = snakeCase(name);
  const isName = snake !== name && snake.length > 1 && /^[\w .-]{2,40}$/.test(name);
  return isName && new RegExp(pattern, 'u').test(snake) ? didYouMean(snake) : '';
}

/** Items that an earlier one of the list is equal to. */
function repeated(items: readonly unknown[]): { index: number; value: unknown }[] {
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
  array: 'a list, such as [ a, b ]',
  string: 'a text',
  number: 'a number',
  integer: 'an integer',
  boolean: 'true or false',
};
const typeWords = (types: unknown): string =>
  [types]
    .flat()
    .map((type) => typeNames[String(type)] ?? String(type))
    .join(' or ');

/** The value of another type, and how it is written as one of this type. */
function given({ schema, data }: ErrorObject): string {
  if (data === null || data === undefined) return ', but nothing is there';
  return `, not ${excerpt(data)}${instead(data, [schema].flat() as string[])}`;
}

function instead(data: unknown, [wanted, ...more]: readonly string[]): string {
  if (more.length > 0 || typeof data === 'object') return '';
  const text = String(data);
  if (wanted === 'string') return `: write "${text}"`;
  if (wanted === 'array') return `: write [ ${text} ]`;
  if (wanted === 'boolean' && /^(yes|on|true|1)$/i.test(text)) return ': write true';
  if (wanted === 'boolean' && /^(no|off|false|0)$/i.test(text)) return ': write false';
  return wanted === 'integer' && /^\d+$/.test(text) ? `: write ${text}, without quotes` : '';
}

/** A limit of the schema in words. */
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
