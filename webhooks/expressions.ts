import handlebars from 'handlebars';

/** Texts with `{{path}}` over data that nobody trusts: own properties only, no HTML escaping, no helpers. */
const engine = handlebars.create();
for (const helper of Object.keys(engine.helpers)) engine.unregisterHelper(helper);

type Evaluate = (data: unknown) => string;

const compiled = new Map<string, Evaluate>();

/** Compiles an expression; the texts come from configuration, so their number is bounded. */
function compileExpression(text: string): Evaluate {
  const known = compiled.get(text);
  if (known !== undefined) return known;
  const template = engine.compile(text, { noEscape: true, strict: false, knownHelpersOnly: true });
  const evaluate: Evaluate = (data) =>
    template(data, { allowProtoMethodsByDefault: false, allowProtoPropertiesByDefault: false }).trim();
  compiled.set(text, evaluate);
  return evaluate;
}

/** What an expression gives for a payload, trimmed; `''` where it is absent or the payload has no such part. */
export const evaluate = (text: string | undefined, data: unknown): string =>
  text === undefined ? '' : compileExpression(text)(data);

/** What is wrong with an expression; undefined where it is right. */
export function expressionProblem(text: string): string | undefined {
  try {
    // Compilation is lazy: a first run is what shows a mistake.
    compileExpression(text)({});
    return undefined;
  } catch (cause) {
    compiled.delete(text);
    return `no expression: ${(cause as Error).message.split('\n')[0]}`;
  }
}
