import handlebars from 'handlebars';
import { ExactNumber } from '../../engine/fields/index.ts';

/** Texts with `{{path}}` over data that nobody trusts: own properties only, no HTML escaping, no helpers. */
const engine = handlebars.create();
const helpers = Object.keys(engine.helpers);
for (const helper of helpers) engine.unregisterHelper(helper);
/** Handlebars counts its own helpers as known; here they are not, so that compiling refuses them by name. */
const knownHelpers = Object.fromEntries(helpers.map((name) => [name, false]));

type Evaluate = (data: unknown) => string;

const compiled = new Map<string, Evaluate>();

/** Compiles an expression; the texts come from configuration, so their number is bounded. */
function compileExpression(text: string): Evaluate {
  const known = compiled.get(text);
  if (known !== undefined) return known;
  const template = engine.compile(text, {
    noEscape: true,
    strict: false,
    knownHelpersOnly: true,
    knownHelpers,
  });
  const evaluate: Evaluate = (data) =>
    template(data, { allowProtoMethodsByDefault: false, allowProtoPropertiesByDefault: false }).trim();
  compiled.set(text, evaluate);
  return evaluate;
}

/** What an expression gives for a payload, trimmed; `''` where it is absent or the payload has no such part. */
export const evaluate = (text: string | undefined, data: unknown): string =>
  text === undefined ? '' : compileExpression(text)(data);

/**
 * What an object or a list is where a text is wanted, whatever `toString` it brings along: no text that anything
 * else gives, so that an amount that is one is refused, and nothing that can be stored.
 */
const noText = { value: () => '\0', enumerable: false };

/** Gives the objects and lists of a payload that text. */
export function withoutTexts<T>(payload: T): T {
  const left: unknown[] = [payload];
  while (left.length > 0) {
    const value = left.pop();
    if (typeof value !== 'object' || value === null || value instanceof ExactNumber) continue;
    // One by one: a list may have more items than a call can have arguments.
    for (const each of Object.values(value)) left.push(each);
    Object.defineProperty(value, 'toString', noText);
  }
  return payload;
}

/** What is wrong with an expression; undefined where it is right. */
export function expressionProblem(text: string): string | undefined {
  try {
    // Compilation is lazy: a first run is what shows a mistake.
    compileExpression(text)({});
    return undefined;
  } catch (cause) {
    compiled.delete(text);
    const [first = '', ...more] = (cause as Error).message.split('\n');
    // A parser's message has the place in the text and a picture first, what is wrong last.
    return `no expression such as {{a.b}}: ${more.at(-1) ?? first}`;
  }
}
