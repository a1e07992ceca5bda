import handlebars from 'handlebars';
import { ExactNumber } from '../../engine/fields/index.ts';

/**
 * Evaluates strings that contain `{{path}}` against untrusted data, with access to own properties only, and
 * without HTML escaping or helpers.
 */
const engine = handlebars.create();
const helpers = Object.keys(engine.helpers);
for (const helper of helpers) engine.unregisterHelper(helper);
/** Declares the built-in helpers as unknown, so that the compiler rejects their names. */
const knownHelpers = Object.fromEntries(helpers.map((name) => [name, false]));

/** Evaluates an expression against a payload and trims the result. Returns an empty string if a value is missing. */
export type Evaluate = (text: string | undefined, data: unknown) => string;

function compile(text: string): (data: unknown) => string {
  const template = engine.compile(text, {
    noEscape: true,
    strict: false,
    knownHelpersOnly: true,
    knownHelpers,
  });
  return (data) =>
    template(data, { allowProtoMethodsByDefault: false, allowProtoPropertiesByDefault: false }).trim();
}

/** Creates an evaluator with an unlimited cache. Use it only for expressions in the settings. */
export function evaluator(): Evaluate {
  const compiled = new Map<string, (data: unknown) => string>();
  return (text, data) => {
    if (text === undefined) return '';
    let expression = compiled.get(text);
    if (expression === undefined) {
      expression = compile(text);
      compiled.set(text, expression);
    }
    return expression(data);
  };
}

/**
 * Property descriptor that makes objects and arrays evaluate to U+0000, even if they have their own
 * `toString`. U+0000 cannot be stored, so an object is rejected as an amount, for example.
 */
const unusableText = { value: () => '\0', enumerable: false };

/** Prevents the objects and arrays in a payload from being used as strings. */
export function withoutTextConversion<T>(payload: T): T {
  const pending: unknown[] = [payload];
  while (pending.length > 0) {
    const value = pending.pop();
    if (typeof value !== 'object' || value === null || value instanceof ExactNumber) continue;
    // `push(...values)` would fail, because an array can have more items than a call can have arguments.
    for (const child of Object.values(value)) pending.push(child);
    Object.defineProperty(value, 'toString', unusableText);
  }
  return payload;
}

/** Returns the error message for an invalid expression, or undefined if it is valid. */
export function expressionProblem(text: string): string | undefined {
  const openingCount = text.split('{{').length;
  const closingCount = text.split('}}').length;
  if (openingCount > closingCount) return '"{{" has no closing "}}"';
  if (openingCount < closingCount) return '"}}" has no opening "{{"';
  const block = /\{\{\s*([#^/>!&]|else)/.exec(text)?.[1];
  if (block !== undefined) return `"{{${block}…}}" is not supported. Use a path, for example {{a.b}}.`;
  try {
    // Templates are compiled lazily, so the template must run to detect errors.
    compile(text)({});
    return undefined;
  } catch (cause) {
    const helper = /unknown helper (\S+)/.exec((cause as Error).message)?.[1];
    return helper === undefined
      ? 'the text between {{ and }} is not a path. Use a path, for example {{a.b}}.'
      : `"${helper}" cannot have arguments. Use a path, for example {{a.b}}.`;
  }
}
