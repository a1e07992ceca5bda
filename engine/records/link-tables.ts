import { type Field, refersToMany } from '../fields/index.ts';
import type { CallerSql } from '../query/index.ts';
import { column, identifier, type Placeholder, quote, record } from '../sql/index.ts';
import type { Assignment } from './assignments.ts';
import type { Referrer } from './delete-rules.ts';
import {
  type CallerScope,
  limitsReferences,
  organizationOf,
  referenceScopeSql,
  type VisibleResource,
} from './rows.ts';

/**
 * Returns the name of a references field's link table, which has a row for each reference. Triggers write the rows, and
 * foreign keys check them. The capital letter prevents collisions with names of resources.
 */
export const linkTable = (resource: string, field: string): string =>
  identifier(`${resource}_Links_${field}`, '_pkey');

/** Returns whether a table is a link table. */
export const isLinkTable = (table: string): boolean => table.includes('_Links_');

/**
 * Returns a FROM clause item with a row for each reference of a field.
 * @param organization SQL expression for the ID of the organization
 */
export function referrerSource(
  { resource, column, isList }: Pick<Referrer, 'resource' | 'column' | 'isList'>,
  alias: string,
  organization: string,
): string {
  if (!isList) return `${quote(resource)} ${alias}`;
  const records = `join ${quote(resource)} _s on _s."organization_id" = ${organization} and _s."id" = _k."record_id"`;
  return `lateral (select _s.*, _k."target_id" as "_target" from ${quote(linkTable(resource, column))} _k ${records} where _k."organization_id" = ${organization}) ${alias}`;
}

/** Returns the ID to which a row of {@link referrerSource} refers. */
export const referredId = ({ column, isList }: Pick<Referrer, 'column' | 'isList'>, alias: string): string =>
  `${alias}.${quote(isList ? '_target' : column)}`;

/** The resources, as a caller sees them. */
type Resources = ReadonlyMap<string, VisibleResource>;

/** Returns whether the caller sees only some of the references in a field. */
export const hidesReferences = (field: Field, resources: Resources): boolean =>
  refersToMany(field) && limitsReferences(resources.get(field.to ?? ''));

/**
 * Returns a SELECT statement for the IDs in an array of the records that the caller can read, in ascending order. Includes
 * records in the trash, because references to them keep their value.
 * @param ids SQL expression for an array of IDs
 * @param organization SQL expression for the ID of the organization
 */
export function visibleIdsSql(
  field: Field,
  resources: Resources,
  placeholder: Placeholder<CallerScope>,
  { ids, organization }: { readonly ids: string; readonly organization: string },
): string {
  const target = resources.get(field.to ?? '');
  if (target === undefined) throw new Error(`${field.name} refers to no resource`);
  const limits = referenceScopeSql(target, placeholder, '_x');
  return `select _x."id" from ${quote(field.to ?? '')} _x where _x."organization_id" = ${organization} and _x."id" = any (${ids})${limits} order by _x."id"`;
}

/**
 * Returns the assignments of an update to a field's columns. If the caller sees only some of the references in the field,
 * the others are kept.
 */
export function keepingHidden(
  field: Field,
  resources: Resources,
  placeholder: Placeholder<CallerScope>,
  writes: readonly Assignment[],
): readonly Assignment[] {
  if (!hidesReferences(field, resources)) return writes;
  const stored = column(field);
  const organization = `${record}."organization_id"`;
  const visible = visibleIdsSql(field, resources, placeholder, { ids: stored, organization });
  const hidden = `array(select unnest(${stored}) except (${visible}))`;
  return writes.map(({ column: name, value }) => ({
    column: name,
    value: `array(select distinct _e from unnest(${value} || ${hidden}) _e order by 1)`,
  }));
}

/** Returns the parts of a list's clauses that depend on the caller, for example the references by which it can filter. */
export const callerSql = (
  {
    definition,
    resources,
  }: { readonly definition: { readonly name: string }; readonly resources: Resources },
  placeholder: Placeholder<CallerScope>,
): CallerSql => ({
  visibleIds: (field, ids) =>
    hidesReferences(field, resources)
      ? `array(${visibleIdsSql(field, resources, placeholder, { ids: ids(), organization: organizationOf(placeholder) })})`
      : undefined,
  refersToAny: (field, ids) =>
    `${record}."id" in (select _k."record_id" from ${quote(linkTable(definition.name, field.name))} _k where _k."organization_id" = ${organizationOf(placeholder)} and _k."target_id" = any (${ids}))`,
  organization: () => organizationOf(placeholder),
});
