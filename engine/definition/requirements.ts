import { UserError } from '../errors.ts';
import type { FieldRequirements, RequiredField, ResourceDefinition } from './definition.ts';

/**
 * Checks that the definitions contain every field used by integrations.
 * @throws UserError naming each missing or incompatible field and the file that needs it
 */
export function checkRequirements(
  definitions: readonly ResourceDefinition[],
  requirements: readonly FieldRequirements[],
): void {
  const issues = requirements.flatMap((requirement) => findIssues(definitions, requirement));
  if (issues.length === 0) return;
  throw new UserError(
    `${issues.join('\n')}\nRestore what is missing, or first remove the integration that needs it.`,
  );
}

function findIssues(
  definitions: readonly ResourceDefinition[],
  { file, resource, fields }: FieldRequirements,
): string[] {
  const definition = definitions.find(({ name }) => name === resource);
  if (definition === undefined) return [`the resource "${resource}" is missing, but ${file} needs it`];
  return Object.entries(fields).flatMap(([name, requirement]) => {
    const field = definition.fields.find((candidate) => candidate.name === name);
    if (field === undefined) {
      return [`${definition.file}  "${name}" of ${resource} is missing, but ${file} needs it`];
    }
    return differences(field, requirement).map(
      (text) => `${field.location}  "${name}" ${text}: ${file} needs it`,
    );
  });
}

function differences(
  { typeName, readOnly, lookup }: ResourceDefinition['fields'][number],
  { types, writable, lookup: requiredLookup }: RequiredField,
): string[] {
  return [
    ...(types.includes(typeName) ? [] : [`must have type ${types.join(' or ')}`]),
    ...(writable === true && readOnly ? ['must not be read_only'] : []),
    ...(requiredLookup === undefined || lookup === requiredLookup
      ? []
      : [`must have "lookup: ${requiredLookup}"`]),
  ];
}
