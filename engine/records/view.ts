import { hash } from 'node:crypto';
import type { ResourceDefinition } from '../definition/index.ts';
import { type Field, referenceName, refersToMany } from '../fields/index.ts';
import { type Relation, withExpansion } from '../query/index.ts';
import {
  type Action,
  actionsOf,
  allows,
  areLimitsImplied,
  fieldGroups,
  type Grants,
  groupObject,
  type RecordLimit,
  recordLimits,
} from './access.ts';
import { referenceLimits, type VisibleResource } from './rows.ts';

/** All resources as a caller sees them. Callers with the same rights share a view, and with it all statements. */
export interface View {
  /** Identifies the rights. Empty if the caller sees all fields and all records. */
  readonly key: string;
  readonly resources: ReadonlyMap<string, VisibleResource>;
}

/** Returns the resources as a caller without limits sees them. */
export const fullView = (definitions: readonly ResourceDefinition[]): View => ({
  key: '',
  resources: new Map(definitions.map((definition) => [definition.name, { definition, stored: definition }])),
});

/** Returns whether any grants can limit the fields or records of these resources. */
export const hasLimits = (definitions: readonly ResourceDefinition[]): boolean =>
  definitions.some(
    ({ scopes, fields }) => scopes.length > 0 || fields.some(({ group }) => group !== undefined),
  );

/**
 * Returns the resources as a caller with these grants sees them. They are determined on first use, because the key identifies
 * an equal view that can already be compiled.
 */
export function limitedView(definitions: readonly ResourceDefinition[], grants: Grants): View {
  const entries = definitions.map((definition) => ({
    definition,
    limits: limitsOf(definition, grants),
    groups: groupsOf(definition, grants),
  }));
  const key = entries.flatMap(({ definition: { name }, limits, groups }) => {
    const rows = limits.map(([action, all]) => `${action}=${all.map(namesOf).join('&')}`);
    const fields = groups.map(({ group, isReadable, isWritable }) =>
      isReadable && isWritable ? [] : `${group}=${isReadable ? 'r' : ''}${isWritable ? 'w' : ''}`,
    );
    const parts = [...rows, ...fields.flat()];
    return parts.length === 0 ? [] : `${name}(${parts.join()})`;
  });
  let resources: View['resources'] | undefined;
  return {
    key: key.length === 0 ? '' : hash('sha256', key.join(), 'hex').slice(0, 16),
    get resources() {
      resources ??= visibleResources(entries);
      return resources;
    },
  };
}

/** A definition, and the parts of it that a caller can access. */
interface Access {
  readonly definition: ResourceDefinition;
  readonly limits: ReturnType<typeof limitsOf>;
  readonly groups: readonly GroupRights[];
}

function visibleResources(entries: readonly Access[]): View['resources'] {
  const visible = new Map(
    entries.map(({ definition, groups }) => [definition.name, visibleDefinition(definition, groups)]),
  );
  return new Map(
    entries.map(({ definition, limits }) => {
      const rows = limits.length === 0 ? {} : { rows: Object.fromEntries(limits) };
      const own = visible.get(definition.name) ?? definition;
      const expansion = visibleRelations(own.expansion, definition.name, visible);
      return [definition.name, { definition: { ...own, expansion }, stored: definition, ...rows }];
    }),
  );
}

/** Returns the relations whose references the caller can read. @param name the resource that has the relations */
const visibleRelations = (
  relations: readonly Relation[],
  name: string,
  definitions: ReadonlyMap<string, ResourceDefinition>,
): readonly Relation[] =>
  relations
    .filter(({ reference, to, isList }) =>
      definitions
        .get(isList ? (to ?? '') : name)
        ?.fields.some((field) => field.name === referenceName(reference)),
    )
    .map((relation) =>
      withExpansion(relation, (to, expansion) => visibleRelations(expansion, to, definitions)),
    );

const namesOf = (limit: RecordLimit): string => limit.map(({ name }) => name).join('|');

/** Returns the actions whose records are limited, with their limits. */
const limitsOf = (
  definition: ResourceDefinition,
  grants: Grants,
): readonly (readonly [Action, readonly RecordLimit[]])[] =>
  // Without scopes, an action is granted on all records or not at all, which does not affect statements.
  definition.scopes.length === 0
    ? []
    : actionsOf(definition).flatMap((action) => {
        const limits = recordLimits(grants, definition, action);
        return limits.length === 0 ? [] : [[action, limits] as const];
      });

/** The caller's rights to the fields of a group. */
interface GroupRights {
  readonly group: string;
  readonly isReadable: boolean;
  readonly isWritable: boolean;
}

const groupsOf = (definition: ResourceDefinition, grants: Grants): readonly GroupRights[] =>
  fieldGroups(definition).map((group) => {
    const object = groupObject(definition.name, group);
    return {
      group,
      isReadable: allows(grants, object, 'read'),
      isWritable: allows(grants, object, 'update'),
    };
  });

/** Returns a definition without fields that the caller cannot read. Fields that it cannot write are read-only. */
function visibleDefinition(
  definition: ResourceDefinition,
  groups: readonly GroupRights[],
): ResourceDefinition {
  if (groups.every(({ isReadable, isWritable }) => isReadable && isWritable)) return definition;
  const rights = new Map(groups.map((group) => [group.group, group]));
  const isReadable = ({ group }: Field) => group === undefined || rights.get(group)?.isReadable === true;
  const isWritable = ({ group }: Field) => group === undefined || rights.get(group)?.isWritable === true;
  const { sort, filters, selection, uniques, screen, aggregates } = definition;
  const { board, ...look } = screen;
  const fields = definition.fields
    .filter(isReadable)
    .map((field) => (field.readOnly || isWritable(field) ? field : { ...field, readOnly: true }));
  const visible = ({ name }: Field) => fields.find((field) => field.name === name) ?? [];
  return {
    ...definition,
    fields,
    // Records can be matched only by fields whose values the caller can also write to new records.
    uniques: uniques.filter((unique) => unique.every((field) => isReadable(field) && isWritable(field))),
    sort: { ...sort, choices: new Map([...sort.choices].filter(([, field]) => isReadable(field))) },
    filters: filters.filter(({ field }) => isReadable(field)),
    selection: selection.filter(isReadable),
    screen: {
      ...look,
      title: screen.title.flatMap(visible),
      columns: screen.columns.flatMap(visible),
      ...(board !== undefined && isReadable(board) && { board }),
    },
    ...(aggregates !== undefined && {
      aggregates: {
        groupBy: aggregates.groupBy.filter(({ field }) => isReadable(field)),
        measures: aggregates.measures.filter(({ field }) => isReadable(field)),
      },
    }),
  };
}

/**
 * Returns whether callers with these grants can read everything that callers with other grants can read: the same records,
 * field groups, names of referenced records, and references in lists.
 * @param names the resources whose records are compared; by default all
 */
export function canReadAll(
  definitions: readonly ResourceDefinition[],
  grants: Grants,
  other: Grants,
  names?: readonly string[],
): boolean {
  const isCovered = (definition: ResourceDefinition, limitsOfGrants: LimitsOfGrants): boolean => {
    const groups = groupsOf(definition, grants);
    return (
      areLimitsImplied(limitsOfGrants(grants, definition), limitsOfGrants(other, definition)) &&
      groupsOf(definition, other).every(
        ({ isReadable }, index) => !isReadable || groups[index]?.isReadable === true,
      )
    );
  };
  return definitions
    .filter((definition) => names?.includes(definition.name) !== false && allows(other, definition, 'read'))
    .every(
      (definition) =>
        allows(grants, definition, 'read') &&
        isCovered(definition, readLimits) &&
        joinedDefinitions(definition, definitions).every((joined) => isCovered(joined, joinLimits)),
    );
}

/** Returns limits that records must meet to be read. */
type LimitsOfGrants = (grants: Grants, definition: ResourceDefinition) => readonly RecordLimit[];

const readLimits: LimitsOfGrants = (grants, definition) => recordLimits(grants, definition, 'read');

/** Returns the limits for joined names and references in lists, which are visible without any grant on their resource. */
const joinLimits: LimitsOfGrants = (grants, definition) => referenceLimits(readLimits(grants, definition));

/** Returns the resources whose limits determine the values of a resource's joined fields and lists of references. */
const joinedDefinitions = (
  { fields }: ResourceDefinition,
  definitions: readonly ResourceDefinition[],
): readonly ResourceDefinition[] =>
  definitions.filter(({ name }) =>
    fields.some(
      (field) =>
        (refersToMany(field) && field.to === name) ||
        fields.some((link) => link.name === field.through && link.to === name),
    ),
  );
