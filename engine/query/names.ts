import type { FieldIssue } from '../errors.ts';
import type { Field } from '../fields/index.ts';
import { suggestion } from '../yaml/index.ts';
import type { Query } from './part.ts';

/** Maximum number of characters that a response echoes from an unknown name. */
const maxEcho = 40;

/**
 * Parses a parameter with field names separated by commas. Repeated parameters are combined.
 * @param fields the available fields
 * @returns the named fields in the order of `fields`
 */
export function parseNames(
  parameter: string,
  input: Query[string],
  fields: readonly Field[],
  issues: FieldIssue[],
): readonly Field[] {
  const texts = [input ?? []].flat().flatMap((text) => text.split(','));
  const names = new Set(texts.map((name) => name.trim()).filter((name) => name !== ''));
  const matches = fields.filter(({ name }) => names.has(name));
  if (matches.length === names.size) return matches;
  const unknown = [...names].find((name) => !fields.some((field) => field.name === name)) ?? '';
  const echo = JSON.stringify(unknown.slice(0, maxEcho));
  issues.push({
    field: parameter,
    message: `Unknown field ${echo} in "${parameter}"${hint(unknown, fields)}`,
  });
  return matches;
}

/**
 * Returns a suggestion or, if no field has a similar name, a list of all fields. Long names are not compared, because
 * that takes too long.
 */
function hint(unknown: string, fields: readonly Field[]): string {
  const names = fields.map(({ name }) => name);
  const similar = unknown.length > maxEcho ? '' : suggestion(unknown, names);
  return similar || `. Available fields: ${names.join(', ')}`;
}

/** Returns the OpenAPI description of a parameter with field names. */
export const describeNames = (name: string, description: string, fields: readonly Field[]) => ({
  name,
  in: 'query',
  description,
  style: 'form',
  explode: false,
  schema: { type: 'array', items: { type: 'string', enum: fields.map((field) => field.name) } },
});
