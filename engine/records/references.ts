import { errors } from '../errors.ts';
import { prepare, quote } from '../sql/index.ts';
import { bodyParameters, type Writing } from './assignments.ts';
import type { MissingReferences, OperationContext, Plan } from './operation.ts';
import { visible } from './rows.ts';

/**
 * Explains a write that the database refused because of a foreign key: which references point to no record of the
 * organization. One text for a missing record and another organization's.
 */
export function missingReferences({ definition: { name, fields } }: OperationContext): {
  missingReferences?: MissingReferences<Plan & Writing>;
} {
  const references = fields.filter((field) => field.type.refers && !field.readOnly);
  if (references.length === 0) return {};
  const { bind } = prepare<Plan & Writing>(`${name}_missing`, 'read', ($) => {
    const rows = visible($, '');
    const checks = references.map((field) => {
      const parameters = bodyParameters(field);
      const id = `${$((plan) => parameters(plan)[0] ?? null)}::text::bigint`;
      return `(${id} is not null and not exists (select from ${quote(field.to ?? '')} where ${rows} and "id" = ${id}))::text`;
    });
    return `select ${checks.join(', ')}`;
  });
  return {
    missingReferences: {
      statement: bind,
      error: ([row = []]) => {
        const missing = references.filter((_, index) => row[index] === 'true');
        if (missing.length === 0) return undefined;
        return errors.missingReferences(
          missing.map((field) => ({
            field: field.name,
            message: `${field.name} refers to a record that does not exist`,
          })),
        );
      },
    },
  };
}
