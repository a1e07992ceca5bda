import { UserError } from '../errors.ts';
import type { FieldRequirements, RequiredField, ResourceDefinition } from './definition.ts';

/**
 * Checks that the definitions contain every field used by integrations. Integrations that need a retired resource are not
 * served, so their other requirements are not passed.
 * @throws UserError naming each missing or incompatible field and the file that needs it
 */
export function checkRequirements(
  all: readonly ResourceDefinition[],
  requirements: readonly FieldRequirements[],
): void {
  const retired = all.filter(({ isRetired }) => isRetired).map(({ name }) => name);
  const issues = requirements
    .filter(({ resource }) => !retired.includes(resource))
    .flatMap((requirement) => findIssues(all, requirement));
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
  const checks = definition.checks.flatMap(({ condition }) => {
    const written = condition.fields.find((name) => fields[name]?.writable === true);
    return written === undefined
      ? []
      : [
          `${definition.file}  no check of ${resource} can read "${written}" (${condition.source}): ${file} writes it`,
        ];
  });
  const issues = Object.entries(fields).flatMap(([name, requirement]) => {
    const field = definition.fields.find((candidate) => candidate.name === name);
    if (field === undefined) {
      return [`${definition.file}  "${name}" of ${resource} is missing, but ${file} needs it`];
    }
    return differences(field, requirement).map(
      (text) => `${field.location}  "${name}" ${text}: ${file} needs it`,
    );
  });
  const isWritten = Object.values(fields).some(({ writable }) => writable === true);
  const lock =
    definition.locked === undefined || !isWritten
      ? []
      : [`${definition.file}  ${resource} cannot have "locked": ${file} writes it`];
  return [...issues, ...checks, ...lock];
}

function differences(
  {
    typeName,
    readOnly,
    lookup,
    transitions,
    values: known,
    alternatives,
  }: ResourceDefinition['fields'][number],
  { types, writable, values, lookup: requiredLookup }: RequiredField,
): string[] {
  const accepted = known?.accepted;
  const rejected = values?.find((value) => accepted?.includes(value) === false);
  return [
    ...(types.includes(typeName) ? [] : [`must have type ${types.join(' or ')}`]),
    ...(alternatives === undefined ? [] : ['must refer to a single resource']),
    ...(writable === true && readOnly ? ['must not be read_only'] : []),
    // The integration writes its values whatever the previous values are.
    ...(transitions === undefined ? [] : ['must not have "transitions"']),
    ...(rejected === undefined ? [] : [`must accept "${rejected}"`]),
    ...(accepted !== undefined && writable === true && values === undefined ? ['must not be "closed"'] : []),
    ...(requiredLookup === undefined || lookup === requiredLookup
      ? []
      : [`must have "lookup: ${requiredLookup}"`]),
  ];
}
