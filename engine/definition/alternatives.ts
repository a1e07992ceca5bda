import { type Field, withAlternatives } from '../fields/index.ts';
import type { RawField, ReportIssue } from './definition.ts';

/** Maximum length of a PostgreSQL name. */
const maxName = 63;

/**
 * Returns a reference whose `to` is a list as a reference to one of several resources. Returns other fields unchanged.
 * @param singularOf returns the singular of a resource, which is part of the column's name
 */
export function readAlternatives(
  field: Field,
  { to }: RawField,
  singularOf: (resource: string) => string,
  report: ReportIssue,
): Field {
  if (typeof to !== 'object' || field.type.refers !== true) return field;
  const alternatives = to.map((resource) => ({ resource, suffix: `_${singularOf(resource)}_id` }));
  for (const { resource, suffix } of alternatives) {
    const column = `${field.name}${suffix}`;
    if (column.length <= maxName) continue;
    report(
      'to',
      `the column "${column}" for ${resource} would be longer than ${maxName} characters. Choose a shorter name for the field.`,
    );
  }
  return withAlternatives(field, alternatives);
}
