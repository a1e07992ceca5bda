import { type ErrorObject, Ajv2020 as Validator } from 'ajv/dist/2020.js';
import leven from 'leven';
import type { RawResource } from './definition.ts';
import type { Parsed, Problem } from './load.ts';
import schema from './resource.schema.json' with { type: 'json' };

const validate = new Validator({ allErrors: true, strict: true, allowUnionTypes: true }).compile(schema);
const fieldKeys = Object.keys(schema.$defs.field.properties);
const resourceKeys = Object.keys(schema.properties);

/** `. Did you mean "…"?` where a known word is near, else nothing. */
export function suggestion(word: string, known: readonly string[]): string {
  const best = known
    .map((candidate) => ({ candidate, distance: leven(word, candidate) }))
    .sort((a, b) => a.distance - b.distance)[0];
  return best !== undefined && best.distance <= Math.max(2, word.length / 3)
    ? `. Did you mean "${best.candidate}"?`
    : '';
}

/** Whether a file has the shape of a resource (resource.schema.json); each way in which it has not is collected. */
export function hasShape(parsed: Parsed, problems: Problem[]): parsed is Parsed & { data: RawResource } {
  if (validate(parsed.data)) return true;
  for (const error of validate.errors ?? []) {
    const problem = describe(parsed, error);
    if (problem !== undefined) problems.push(problem);
  }
  return false;
}

/** Ajv's error as a sentence with a place; undefined for those that only follow from another. */
function describe(parsed: Parsed, error: ErrorObject): Problem | undefined {
  const path = error.instancePath
    .split('/')
    .slice(1)
    .map((step) => (/^\d+$/.test(step) ? Number(step) : step.replaceAll('~1', '/').replaceAll('~0', '~')));
  const name = path.at(-1) ?? 'the file';
  switch (error.keyword) {
    case 'additionalProperties': {
      const key = String(error.params.additionalProperty);
      const known = path[0] === 'fields' ? fieldKeys : path.length === 0 ? resourceKeys : [];
      return parsed.problem(
        { path: [...path, key], key: true },
        `unknown key "${key}"${suggestion(key, known)}`,
      );
    }
    case 'required':
      return parsed.problem({ path, key: true }, `${name} lacks "${error.params.missingProperty}"`);
    case 'propertyNames':
      return parsed.problem(
        { path: [...path, String(error.params.propertyName)], key: true },
        `"${error.params.propertyName}" is no field name: a lower-case letter, then up to 39 letters, digits or _`,
      );
    case 'pattern':
      if (error.propertyName !== undefined) return undefined;
      return parsed.problem(
        { path },
        `${name} must be a lower-case letter, then up to 39 letters, digits or _`,
      );
    case 'enum':
      return parsed.problem(
        { path },
        `${name} must be one of ${(error.params.allowedValues as string[]).join(', ')}`,
      );
    case 'oneOf':
      return parsed.problem({ path }, `${name} must be "all" or a list of field names`);
    case 'const':
      return undefined;
    default:
      if (error.schemaPath.includes('/oneOf/')) return undefined;
      return parsed.problem({ path }, `${name} ${error.message ?? 'is wrong'}`);
  }
}
