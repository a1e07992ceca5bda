import type { FieldIssue } from '../errors.ts';
import { type Field, maxReferences, referenceName, refersToMany, refersToUser } from '../fields/index.ts';
import { identifier } from '../sql/index.ts';
import { describeNames, namesIn, unknownNameIssue } from './fields-parameter.ts';
import { parameterIssue, type Query, type QueryPart } from './part.ts';

/** Maximum number of records in an expanded list. */
export const maxListed = 20;

/** Maximum number of expanded lists and second-level expansions per request. */
export const maxExpansions = 10;

/** Related records or a user that `?expand=` can add to a record. */
export interface Relation {
  /** Name in `expand`, and key in `expanded`. */
  readonly name: string;
  /** The reference field. It belongs to the related records if `isList` is true, otherwise to the record itself. */
  readonly reference: Field;
  /** Name of the related resource; undefined if the reference points to a user or to one of several resources. */
  readonly to: string | undefined;
  /** The relations to each of the resources, if the reference points to one of several resources. */
  readonly alternatives?: readonly Relation[];
  /** Whether the related records are the list of records that refer to the record. */
  readonly isList: boolean;
  /**
   * The related records' own relations, each of which at least one of several resources has. Empty on the second level.
   */
  readonly expansion: readonly Relation[];
  /** The order of a list; absent for the related resource's default order. */
  readonly order?: ListOrder;
  /** Whether requests that write the record can contain the related records. */
  readonly isWritable?: true;
}

/** A field and the direction in which a list is ordered by it. */
export interface ListOrder {
  readonly field: Field;
  readonly direction: 'asc' | 'desc';
}

/** A list of referring records that a definition names with `children`. */
export interface Children {
  readonly name: string;
  /** Name of the resource to which the records belong. */
  readonly of: string;
  /** Name of the records' reference field. */
  readonly by: string;
  readonly order?: ListOrder;
  readonly isWritable: boolean;
}

/** The order in which another resource lists the records that refer to it. */
export interface ReferrerOrder {
  readonly reference: Field;
  readonly sort: Field;
}

/** The parts of a definition that determine its relations. */
interface RelatedDefinition {
  readonly name: string;
  readonly fields: readonly Field[];
  readonly expansion: readonly Relation[];
  readonly children: readonly Children[];
}

/** Adds the relations that involve other resources: lists of referring records, and a second level. */
export function withRelations<Definition extends RelatedDefinition>(
  definitions: readonly Definition[],
): Definition[] {
  const relations = new Map(
    definitions.map((definition) => [
      definition.name,
      [...definition.expansion, ...referringLists(definition, definitions)],
    ]),
  );
  return definitions.map((definition) => ({
    ...definition,
    expansion: (relations.get(definition.name) ?? []).map((relation) =>
      withExpansion(relation, (to) => relations.get(to) ?? []),
    ),
    referrerOrders: [...relations.values()]
      .flat()
      .flatMap(({ to, isList, reference, order }) =>
        isList && to === definition.name && order !== undefined ? [{ reference, sort: order.field }] : [],
      ),
  }));
}

/**
 * Replaces the relations of a relation's records.
 * @param expansionOf returns the new relations for one resource
 */
export function withExpansion(
  relation: Relation,
  expansionOf: (to: string, expansion: readonly Relation[]) => readonly Relation[],
): Relation {
  if (relation.alternatives === undefined)
    return { ...relation, expansion: expansionOf(relation.to ?? '', relation.expansion) };
  const alternatives = relation.alternatives.map((alternative) => withExpansion(alternative, expansionOf));
  const byName = new Map(nestedRelations({ alternatives }).map((nested) => [nested.name, nested]));
  return { ...relation, alternatives, expansion: [...byName.values()] };
}

/** Returns the relations of a relation's records, for each of several resources. */
export const nestedRelations = ({
  alternatives,
  expansion = [],
}: Pick<Relation, 'alternatives'> & Partial<Pick<Relation, 'expansion'>>): readonly Relation[] =>
  alternatives?.flatMap((alternative) => alternative.expansion) ?? expansion;

/** Returns the lists of records that refer to a resource's records. */
const referringLists = (
  { name, fields, children }: RelatedDefinition,
  definitions: readonly RelatedDefinition[],
): readonly Relation[] =>
  definitions.flatMap((child) => {
    const references = child.expansion
      .flatMap((relation) => relation.alternatives ?? [relation])
      .filter(({ to }) => to === name)
      .map(({ reference }) => reference);
    // A name with a dot cannot be the name of a field.
    const isAmbiguous = references.length > 1 || fields.some((field) => field.name === child.name);
    return references.map((reference) => {
      const named = children.find(({ of, by }) => of === child.name && by === reference.name);
      return {
        name:
          named?.name ?? (isAmbiguous ? identifier(`${child.name}.${referenceName(reference)}`) : child.name),
        reference,
        to: child.name,
        isList: true,
        expansion: [],
        ...(named?.order && { order: named.order }),
        ...(named?.isWritable === true && { isWritable: true as const }),
      };
    });
  });

/** Returns the requested relations, each with only the requested relations of the related records. */
function parsePaths(
  input: Query[string],
  relations: readonly Relation[],
  issues: FieldIssue[],
): readonly Relation[] {
  const paths = namesIn(input);
  const pathsOf = (relation: Relation) => [
    relation.name,
    ...relation.expansion.map(({ name }) => `${relation.name}.${name}`),
  ];
  const requested = relations
    .filter((relation) => pathsOf(relation).some((path) => paths.has(path)))
    .map((relation) =>
      withExpansion(relation, (_, expansion) =>
        expansion.filter(({ name }) => paths.has(`${relation.name}.${name}`)),
      ),
    );
  const known = new Set(relations.flatMap(pathsOf));
  const unknown = [...paths].find((path) => !known.has(path));
  if (unknown !== undefined) issues.push(unknownPathIssue(unknown, relations, pathsOf));
  const count = requested.reduce((sum, { isList, expansion }) => sum + Number(isList) + expansion.length, 0);
  if (count > maxExpansions) {
    issues.push(
      parameterIssue('expand', `must not contain more than ${maxExpansions} lists and second-level names`),
    );
  }
  return requested;
}

/** Returns the issue for an unknown path, which suggests names on the same level. */
function unknownPathIssue(
  path: string,
  relations: readonly Relation[],
  pathsOf: (relation: Relation) => readonly string[],
): FieldIssue {
  const parent = relations.find(({ name }) => path.startsWith(`${name}.`));
  const siblings = parent === undefined ? relations.map(({ name }) => name) : pathsOf(parent).slice(1);
  if (siblings.some((sibling) => path.startsWith(`${sibling}.`) && parent !== undefined)) {
    return parameterIssue('expand', 'is limited to two levels');
  }
  return unknownNameIssue('expand', path, siblings);
}

/** Returns the relation to the record that a reference points to. */
const relationOf = (reference: Field): Relation => ({
  name: referenceName(reference),
  reference,
  to: reference.to,
  isList: false,
  expansion: [],
});

/** Returns a key for the names of relations. */
const shapeOf = (relations: readonly Relation[]): string =>
  relations
    .map(({ name, expansion }) => (expansion.length === 0 ? name : `${name}(${shapeOf(expansion)})`))
    .join();

/** `?expand=`: adds related records. */
export const expansion: QueryPart<readonly Relation[], readonly Relation[]> = {
  declare: ({ fields }) =>
    [...fields.values()]
      .filter((field) => field.type.refers === true || refersToUser(field))
      .map((reference) => ({
        ...relationOf(reference),
        ...(reference.alternatives && { alternatives: reference.alternatives.map(relationOf) }),
      })),
  ofRecord: true,
  reserved: ['expand'],
  parameters: (relations) => (relations.length > 0 ? ['expand'] : []),
  parse: (relations, query, issues) =>
    relations.length === 0 || query.expand === undefined ? [] : parsePaths(query.expand, relations, issues),
  shape: shapeOf,
  clauses: () => ({}),
  describe: (relations) =>
    relations.length === 0
      ? []
      : [
          describeNames(
            'expand',
            `Comma-separated names of related records, which are returned under \`expanded\`: a reference for the record or user that it points to, or a list of the first ${maxListed} records that refer to the record. \`name.other\` also expands \`other\` in the related records. Requires the \`read\` grant on the resources of references, and the \`list\` grant on the resources of lists. Email addresses of users require the grant \`list\` on \`members\`. The response does not have an \`ETag\`. An empty value is ignored.${partialNote(relations)}`,
            relations.flatMap(({ name, expansion }) => [
              name,
              ...expansion.map((nested) => `${name}.${nested.name}`),
            ]),
          ),
        ],
};

/** Returns sentences about the second-level names that only some of several resources have, each starting with a space. */
function partialNote(relations: readonly Relation[]): string {
  const names = relations.flatMap(({ name, alternatives = [], expansion }) =>
    expansion.flatMap((nested) => {
      const resources = alternatives.flatMap(({ to = '', expansion: own }) =>
        own.some((relation) => relation.name === nested.name) ? [to] : [],
      );
      return resources.length < alternatives.length
        ? [{ name: `\`${name}.${nested.name}\``, resources: resources.join(', ') }]
        : [];
    }),
  );
  return Object.entries(Object.groupBy(names, ({ resources }) => resources))
    .map(([resources, group = []]) => ` ${group.map(({ name }) => name).join(', ')}: only for ${resources}.`)
    .join('');
}

/** Returns whether a relation is a field with a list of references. */
export const isReferenceList = ({ isList, reference }: Relation): boolean =>
  !isList && refersToMany(reference);

/** Returns the maximum number of records that a relation adds to one record, without their own relations. */
const widthOf = (relation: Relation): number =>
  relation.isList ? maxListed : isReferenceList(relation) ? maxReferences : 1;

/**
 * Returns the maximum number of records that expanded lists and second-level expansions add to one record. References
 * of the record itself do not count, except lists of references.
 */
export const expandedRecords = (relations: readonly Relation[]): number =>
  relations.reduce((sum, relation) => {
    const nested = Math.max(
      ...(relation.alternatives ?? [relation]).map(({ expansion }) =>
        expansion.reduce((total, inner) => total + widthOf(inner), 0),
      ),
    );
    const width = widthOf(relation);
    return sum + (width === 1 ? nested : width * (1 + nested));
  }, 0);

/** Returns the maximum number of records to which the record's own lists of references can refer. */
export const referencedRecords = (relations: readonly Relation[]): number =>
  relations.filter(isReferenceList).length * maxReferences;
