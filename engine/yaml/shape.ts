import { type AnySchema, type ErrorObject, Ajv2020 as Validator } from 'ajv/dist/2020.js';
import leven from 'leven';
import type { Parsed, Problem } from './load.ts';

/** `. Did you mean "…"?` if a known word is similar, else an empty text. */
export function suggestion(word: string, known: readonly string[]): string {
  const best = known
    .map((candidate) => ({ candidate, distance: leven(word, candidate) }))
    .sort((a, b) => a.distance - b.distance)[0];
  return best !== undefined && best.distance <= Math.max(2, word.length / 3)
    ? `. Did you mean "${best.candidate}"?`
    : '';
}

/** Whether a file matches a schema; every violation is added to `problems`. */
export type Shape<T> = (parsed: Parsed, problems: Problem[]) => parsed is Parsed & { data: T };

/** The schema is ours, and strict mode refuses unknown keywords: compiling the meta-schema would only cost each start time. */
const ownSchema = { validateSchema: false } as const;

/**
 * Compiles a JSON Schema into a check of YAML files. A subschema's `x-expected` completes "<key> must be …".
 */
export function shape<T>(schema: AnySchema): Shape<T> {
  const validate = new Validator({ allErrors: true, verbose: true, strictTypes: false, ...ownSchema })
    .addVocabulary(['x-expected'])
    .compile(schema);
  return (parsed, problems): parsed is Parsed & { data: T } => {
    if (validate(parsed.data)) return true;
    for (const error of validate.errors ?? []) {
      const problem = describe(parsed, error);
      if (problem !== undefined) problems.push(problem);
    }
    return false;
  };
}

interface Subschema {
  readonly 'x-expected'?: string;
  readonly properties?: Readonly<Record<string, unknown>>;
}

/** Ajv's error as a message with its position; undefined for errors that only follow from another. */
function describe(parsed: Parsed, error: ErrorObject): Problem | undefined {
  const path = error.instancePath
    .split('/')
    .slice(1)
    .map((step) => (/^\d+$/.test(step) ? Number(step) : step.replaceAll('~1', '/').replaceAll('~0', '~')));
  const last = path.at(-1) ?? 'the file';
  const name = typeof last === 'number' ? `item ${last + 1} of ${path.at(-2)}` : last;
  const around = (error.parentSchema ?? {}) as Subschema;
  const expected = around['x-expected'];
  // A branch of a choice: the choice itself is reported.
  if (/\/(oneOf|anyOf)\/\d+\//.test(error.schemaPath)) return undefined;
  switch (error.keyword) {
    case 'additionalProperties': {
      const key = String(error.params.additionalProperty);
      const hint = suggestion(key, Object.keys(around.properties ?? {}));
      return parsed.problem({ path: [...path, key], key: true }, `unknown key "${key}"${hint}`);
    }
    case 'if':
      return undefined;
    case 'required':
      return parsed.problem({ path, key: true }, `${name} lacks "${error.params.missingProperty}"`);
    case 'propertyNames':
      return parsed.problem(
        { path: [...path, String(error.params.propertyName)], key: true },
        `"${error.params.propertyName}" must be ${(error.schema as Subschema)['x-expected'] ?? 'another name'}`,
      );
    case 'enum': {
      const allowed = error.params.allowedValues as string[];
      const hint = suggestion(String(error.data), allowed);
      return parsed.problem({ path }, `${name} must be one of ${allowed.join(', ')}${hint}`);
    }
    default:
      // What a key's own rule found is reported as "propertyNames".
      if (error.propertyName !== undefined) return undefined;
      return parsed.problem({ path }, `${name} ${expected ? `must be ${expected}` : error.message}`);
  }
}
