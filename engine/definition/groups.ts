import type { Field } from '../fields/index.ts';
import type { ResourceDefinition } from './definition.ts';

/** Functions that find referenced fields and report issues. */
interface Context {
  /** Returns the fields of the resource to which a reference points. */
  readonly targetOf: (reference: Field) => readonly Field[];
  /** Reports an issue at a field's `group`, or at its name if it has none. */
  readonly report: (field: Field, message: string) => void;
}

/**
 * Checks that callers can use the resource without the grants of its field groups, and that no other field or
 * parameter reveals the values of a group.
 */
export function checkGroups(definition: ResourceDefinition, { targetOf, report }: Context): void {
  const { fields, uniques, search, sort } = definition;
  for (const field of fields.filter(({ aliasOf }) => aliasOf === undefined)) {
    const sources = field.type.joins === true ? groupedSources(field, fields, targetOf) : [];
    const source = sources.find(({ group }) => group !== field.group);
    if (source !== undefined) {
      const isMixed = sources.some(({ group }) => group !== source.group);
      const hint = isMixed
        ? 'Fields of different groups cannot be shown together.'
        : `Add "group: ${source.group}".`;
      report(
        field,
        `"${field.name}" shows ${source.label}, which belongs to the group "${source.group}". ${hint}`,
      );
    }
    const issue = field.group === undefined ? undefined : findIssue(field);
    if (issue !== undefined) report(field, issue);
  }

  /** Returns the reason a field cannot belong to its group, or undefined if it can. */
  function findIssue({ name, set, required, group }: Field): string | undefined {
    if (set === 'id' || set === 'organization')
      return `every caller needs "${name}", so it cannot have a group`;
    if (required) {
      return `"${name}" is required, so callers without the group could not create records. Remove "required" or "group".`;
    }
    if (sort.field.name === name) return `lists are ordered by "${name}", so it cannot have a group`;
    if (search.some((field) => field.name === name)) {
      return `"${name}" is searched by every caller, so it cannot have a group. Remove it from "search".`;
    }
    const other = uniques
      .filter((unique) => unique.some((field) => field.name === name))
      .flat()
      .find((field) => field.group !== group);
    return other && `"${name}" is unique together with "${other.name}", which is not in the group "${group}"`;
  }
}

/** Returns the reason a field cannot have a value calculated from another field of its resource, or undefined if it can. */
export function revealedIssue(field: Field, { name, group, sensitive }: Field): string | undefined {
  if (group !== undefined && group !== field.group) {
    const hint =
      field.group === undefined
        ? `Add "group: ${group}" to "${field.name}".`
        : 'Fields of different groups cannot be combined.';
    return `"${name}" belongs to the group "${group}", and "${field.name}" would reveal its values. ${hint}`;
  }
  if (sensitive && !field.sensitive) {
    return `"${name}" is sensitive, and "${field.name}" would reveal its values in the change log. Add "sensitive: true" to "${field.name}".`;
  }
  return undefined;
}

/** Returns the reason a field cannot combine the values of another resource's field, or undefined if it can. */
export function combinedIssue(field: Field, { name, group }: Field, resource: string): string | undefined {
  if (group === undefined || group === field.group) return undefined;
  const hint =
    field.group === undefined ? `Add "group: ${group}".` : 'Fields of different groups cannot be combined.';
  return `"${field.name}" reads "${name}" of ${resource}, which belongs to the group "${group}". ${hint}`;
}

/** A grouped field whose values a joined field shows. */
interface GroupedSource {
  readonly label: string;
  readonly group: string;
}

/** Returns the grouped fields among a joined field's reference and the fields that it shows. */
function groupedSources(
  { through, show = [] }: Field,
  fields: readonly Field[],
  targetOf: Context['targetOf'],
): GroupedSource[] {
  const reference = fields.find(({ name }) => name === through);
  if (reference === undefined) return [];
  const shown = targetOf(reference).filter(({ name }) => show.includes(name));
  return [
    { label: `the record of "${reference.name}"`, group: reference.group },
    ...shown.map(({ name, group }) => ({ label: `"${name}" of ${reference.to}`, group })),
  ].flatMap(({ label, group }) => (group === undefined ? [] : [{ label, group }]));
}
