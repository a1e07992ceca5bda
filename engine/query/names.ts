import type { FieldIssue } from '../errors.ts';
import type { Field } from '../fields/index.ts';
import { suggestion } from '../yaml/index.ts';
import type { Query } from './part.ts';

/** Maximum characters of an unknown name in a response. */
const maxEcho = 40;

/**
 * Parses a parameter with field names separated by commas; repeated parameters are joined.
 * @param known the available fields
 * @returns the named fields in the order of `known`
 */
export function parseNames(
  parameter: string,
  given: Query[string],
  known: readonly Field[],
  problems: FieldIssue[],
): readonly Field[] {
  const texts = [given ?? []].flat().flatMap((text) => text.split(','));
  const names = new Set(texts.map((name) => name.trim()).filter((name) => name !== ''));
  const found = known.filter(({ name }) => names.has(name));
  if (found.length === names.size) return found;
  const unknown = [...names].find((name) => !known.some((field) => field.name === name)) ?? '';
  const echo = JSON.stringify(unknown.slice(0, maxEcho));
  problems.push({
    field: parameter,
    message: `Unknown field ${echo} in "${parameter}"${hint(unknown, known)}`,
  });
  return found;
}

/** Returns a suggestion or, if no field has a similar name, a list of all. Comparing long names takes time. */
function hint(unknown: string, known: readonly Field[]): string {
  const names = known.map(({ name }) => name);
  const similar = unknown.length > maxEcho ? '' : suggestion(unknown, names);
  return similar || `. Available fields: ${names.join(', ')}`;
}

/** Returns the OpenAPI description of a parameter with field names. */
export const describeNames = (name: string, description: string, known: readonly Field[]) => ({
  name,
  in: 'query',
  description,
  style: 'form',
  explode: false,
  schema: { type: 'array', items: { type: 'string', enum: known.map((field) => field.name) } },
});
