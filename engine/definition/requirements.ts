import { UserError } from '../errors.ts';
import type { FieldRequirements, RequiredField, ResourceDefinition } from './definition.ts';

/**
 * Checks that the definitions have every field that parts of the service write or find records by.
 * @throws UserError naming each field that is missing or different, and the file that needs it
 */
export function checkRequirements(
  definitions: readonly ResourceDefinition[],
  needs: readonly FieldRequirements[],
): void {
  const problems = needs.flatMap((each) => problemsOf(definitions, each));
  if (problems.length === 0) return;
  throw new UserError(
    `${problems.join('\n')}\nPut back what is missing, or take the part of the service that needs it out first`,
  );
}

function problemsOf(
  definitions: readonly ResourceDefinition[],
  { file, resource, fields }: FieldRequirements,
): string[] {
  const definition = definitions.find(({ name }) => name === resource);
  if (definition === undefined) return [`there is no resource "${resource}", but ${file} needs it`];
  return Object.entries(fields).flatMap(([name, needed]) => {
    const field = definition.fields.find((each) => each.name === name);
    if (field === undefined) {
      return [`${definition.file}  ${resource} have no field "${name}", but ${file} needs it`];
    }
    return differences(field, needed).map((text) => `${field.place}  "${name}" ${text}: ${file} needs it`);
  });
}

function differences(
  { typeName, readOnly, lookup }: ResourceDefinition['fields'][number],
  { types, writable, lookup: wanted }: RequiredField,
): string[] {
  return [
    ...(types.includes(typeName) ? [] : [`must be of the type ${types.join(' or ')}`]),
    ...(writable === true && readOnly ? ['must not be read_only'] : []),
    ...(wanted === undefined || lookup === wanted ? [] : [`must have "lookup: ${wanted}"`]),
  ];
}
