import handlebars from 'handlebars';
import { ExactNumber } from '../../engine/fields/index.ts';

/** Texts with `{{path}}` over untrusted data: own properties only, no HTML escaping, no helpers. */
const engine = handlebars.create();
const helpers = Object.keys(engine.helpers);
for (const helper of helpers) engine.unregisterHelper(helper);
/** Marks handlebars' own helpers as unknown, so that compiling refuses them by name. */
const knownHelpers = Object.fromEntries(helpers.map((name) => [name, false]));

/** Evaluates an expression over a payload, trimmed; `''` if the expression or its part of the payload is absent. */
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

/** An evaluator that compiles each expression once. Use it only for expressions of the settings: they are bounded. */
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
 * The text of an object or a list, even if it has its own `toString`: U+0000, which no other value has and which is
 * not storable, so that an object as an amount is refused.
 */
const unusableText = { value: () => '\0', enumerable: false };

/** Makes the objects and lists of a payload unusable as texts. */
export function withoutTextConversion<T>(payload: T): T {
  const left: unknown[] = [payload];
  while (left.length > 0) {
    const value = left.pop();
    if (typeof value !== 'object' || value === null || value instanceof ExactNumber) continue;
    // Not push(...values): a list may have more items than a call can have arguments.
    for (const each of Object.values(value)) left.push(each);
    Object.defineProperty(value, 'toString', unusableText);
  }
  return payload;
}

/** The error message for an invalid expression; undefined if it is valid. */
export function expressionProblem(text: string): string | undefined {
  const opened = text.split('{{').length;
  const closed = text.split('}}').length;
  if (opened > closed) return '"{{" is not closed: "}}" is missing';
  if (opened < closed) return '"}}" closes nothing: "{{" is missing';
  const block = /\{\{\s*([#^/>!&]|else)/.exec(text)?.[1];
  if (block !== undefined) return `{{${block}…}} is more than a path: write one such as {{a.b}}`;
  try {
    // Compilation is lazy: only running it finds a mistake.
    compile(text)({});
    return undefined;
  } catch (cause) {
    const helper = /unknown helper (\S+)/.exec((cause as Error).message)?.[1];
    return helper === undefined
      ? 'what is between {{ and }} is no path: write one such as {{a.b}}'
      : `"${helper}" is followed by more, so it is no path: write one such as {{a.b}}`;
  }
}
