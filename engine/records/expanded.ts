import { errors, type FieldIssue } from '../errors.ts';
import { referenceName, refersToMany, refersToUser } from '../fields/index.ts';
import {
  equalityParameter,
  expandedRecords,
  isReferenceList,
  type ListOrder,
  maxListed,
  nestedRelations,
  orderKeys,
  parameterIssue,
  type Relation,
  referencedRecords,
} from '../query/index.ts';
import { column, literal, type Placeholder, quote, record } from '../sql/index.ts';
import { referencedUserSql } from '../tables/index.ts';
import { allows, membersObject, type Principal } from './access.ts';
import { showsEmailSql } from './email-addresses.ts';
import { isIndexed } from './indexes.ts';
import { linkTable } from './link-tables.ts';
import type { OperationContext, ProjectedResource } from './operation.ts';
import { type CallerScope, organizationOf, visibleSql } from './rows.ts';

/** Key of the related records in a record. Fields cannot have this name. */
export const expandedKey = 'expanded';

/** Returns the column with the related records, preceded by a comma. Empty without relations. */
export function expandedSql(
  { resources }: Pick<OperationContext, 'resources'>,
  relations: readonly Relation[],
  placeholder: Placeholder<CallerScope>,
): string {
  if (relations.length === 0) return '';
  const values = relations.map((relation) => {
    if (!relation.isList && refersToUser(relation.reference)) {
      return `${userSql(relation, placeholder)} as ${quote(relation.name)}`;
    }
    if (relation.alternatives !== undefined) {
      const records = relation.alternatives.map((alternative) => {
        const target = targetOf(resources, alternative);
        const resource = `${literal(target.definition.name)} as ${quote('resource')}`;
        const nested =
          relation.expansion.length > 0 && alternative.expansion.length === 0
            ? `, '{}'::json as ${quote(expandedKey)}`
            : expandedSql({ resources }, alternative.expansion, placeholder);
        const columns = `${resource}, ${target.projection.columns}${nested}`;
        return `when ${column(alternative.reference)} is not null then ${recordSql(alternative, target, columns, placeholder)}`;
      });
      return `case ${records.join(' ')} end as ${quote(relation.name)}`;
    }
    const target = targetOf(resources, relation);
    const columns = `${target.projection.columns}${expandedSql({ resources }, relation.expansion, placeholder)}`;
    const select = relation.isList ? listSql : isReferenceList(relation) ? recordsSql : recordSql;
    const sql = select(relation, target, columns, placeholder);
    return `${sql} as ${quote(relation.name)}`;
  });
  return `, (select row_to_json(_e) from (select ${values.join(', ')}) _e) as ${quote(expandedKey)}`;
}

function targetOf(resources: OperationContext['resources'], { to, name }: Relation): ProjectedResource {
  const target = resources.get(to ?? '');
  if (target === undefined) throw new Error(`${name} refers to no resource`);
  return target;
}

/**
 * Returns an SQL expression for the record that a reference points to, as JSON. It is null if the record does not exist.
 * @param columns the columns to select from the record
 */
function recordSql(
  { reference }: Relation,
  target: ProjectedResource,
  columns: string,
  placeholder: Placeholder<CallerScope>,
): string {
  // The target's projection uses the alias `record`. The reference is resolved in an inner query, where
  // `record` is still the referring record.
  const source = `select _x.* from ${quote(target.definition.name)} _x where ${visibleSql(target, 'read', placeholder, '_x')} and _x."id" = ${column(reference)}`;
  return `(select row_to_json(_r) from (select ${columns} from (${source}) ${record}${target.projection.joins(placeholder)}) _r)`;
}

/**
 * Returns an SQL expression for the records to which a list of references points, in the order of the list, as JSON.
 * @param columns the columns to select from the records
 */
function recordsSql(
  { reference }: Relation,
  target: ProjectedResource,
  columns: string,
  placeholder: Placeholder<CallerScope>,
): string {
  // See `recordSql` for the inner query.
  const source = `select _x.* from ${quote(target.definition.name)} _x where ${visibleSql(target, 'read', placeholder, '_x')} and _x."id" = any (${column(reference)})`;
  return `(select coalesce(json_agg(_r."_record" order by _r."_id"), '[]') from (select ${record}."id" as "_id", (select row_to_json(_c) from (select ${columns}) _c) as "_record" from (${source}) ${record}${target.projection.joins(placeholder)}) _r)`;
}

/** Returns an SQL expression for the user as JSON. The email address is included if the caller can list members. */
const userSql = ({ reference }: Relation, placeholder: Placeholder<CallerScope>): string =>
  referencedUserSql({
    organization: organizationOf(placeholder),
    user: column(reference),
    showsEmail: showsEmailSql(placeholder),
  });

/**
 * Returns an SQL expression for the list of records that refer to the record, in the list's order, as JSON.
 * @param columns the columns to select from the listed records
 */
function listSql(
  { reference, order: listOrder }: Relation,
  target: ProjectedResource,
  columns: string,
  placeholder: Placeholder<CallerScope>,
): string {
  const table = `${quote(target.definition.name)} ${record}`;
  // Outside the query for the listed records, `record` is the record that they refer to.
  const refers = refersToMany(reference)
    ? `exists (select from ${quote(linkTable(target.definition.name, reference.name))} _k where _k."organization_id" = ${record}."organization_id" and _k."record_id" = ${record}."id" and _k."target_id" = _p."_parent")`
    : `${column(reference)} = _p."_parent"`;
  const conditions = `where ${visibleSql(target, 'list', placeholder)} and ${refers}`;
  const joins = target.projection.joins(placeholder);
  // OFFSET 0 prevents the planner from walking the index of the order, which would read records that do not refer to
  // the record.
  const keys = listOrder ?? target.definition.sort;
  const source = isInOrder(target, reference, keys)
    ? `${table}${joins} ${conditions}`
    : `(select ${record}.* from ${table} ${conditions} offset 0) ${record}${joins}`;
  // One more record than the maximum shows that there are more.
  const order = `order by ${orderKeys([keys]).join(', ')} limit ${maxListed + 1}`;
  const list = [
    `coalesce(array_to_json((array_agg(row_to_json(_r)))[1:${maxListed}]), '[]') as "data"`,
    `count(*) > ${maxListed} as "has_more"`,
    `${urlSql(listUrl(target, { reference, order: listOrder }))} as "url"`,
  ];
  const parent = `(select ${record}."id" as "_parent") _p`;
  return `(select row_to_json(_l) from (select ${list.join(', ')} from ${parent} cross join lateral (select ${columns} from ${source} ${order}) _r) _l)`;
}

/** The URL of the complete list of the records that refer to a record, without the record's ID. */
interface ListUrl {
  readonly beforeId: string;
  readonly afterId: string;
}

/** Returns an SQL expression for the URL of the records that refer to the record. */
const urlSql = ({ beforeId, afterId }: ListUrl): string =>
  `${literal(beforeId)} || ${record}."id"${afterId === '' ? '' : ` || ${literal(afterId)}`}`;

/**
 * Returns the URL of the complete list of the records that refer to a record. It has the order of the expanded list, unless
 * callers cannot choose the order of the resource's lists.
 */
export function listUrl(
  { definition: { name: resource, filters, sort }, path }: ProjectedResource,
  { reference, order }: Pick<Relation, 'reference'> & { readonly order: ListOrder | undefined },
): ListUrl {
  const name = referenceName(reference);
  const parameter = equalityParameter(filters, name);
  if (parameter === undefined) throw new Error(`${resource} cannot be filtered by ${name}`);
  const target = reference.alternativeOf === undefined ? '' : `${reference.to}/`;
  const isDefault =
    order === undefined || (order.field.name === sort.field.name && order.direction === sort.direction);
  return {
    beforeId: `${path}?${encodeURIComponent(parameter.name)}=${target}`,
    afterId:
      isDefault || !sort.choices.has(order.field.name)
        ? ''
        : `&sort=${order.field.name}&dir=${order.direction}`,
  };
}

/** Returns whether an index provides the order of the records that refer to a record. */
const isInOrder = (
  { stored, rows }: ProjectedResource,
  reference: Relation['reference'],
  { field }: ListOrder,
): boolean => rows?.list === undefined && !refersToMany(reference) && isIndexed(stored, [reference], field);

/** Checks access to the related resources. @throws HttpError 403 unless the caller can read or list them */
export function authorizeExpansion(
  context: Pick<OperationContext, 'resources'>,
  principal: Principal,
  relations: readonly Relation[],
): void {
  for (const { to, isList, alternatives, expansion } of relations) {
    if (alternatives !== undefined) {
      authorizeExpansion(context, principal, alternatives);
      continue;
    }
    const action = isList ? 'list' : 'read';
    if (to !== undefined && !allows(principal.grants, context.resources.get(to)?.stored ?? to, action)) {
      throw errors.forbidden(to, action);
    }
    authorizeExpansion(context, principal, expansion);
  }
}

/**
 * Checks that a caller can still see the email addresses of related users if it could when the request started.
 * @throws HttpError 403 otherwise
 */
export function authorizeEmails(before: Principal, now: Principal, relations: readonly Relation[]): void {
  const canList = ({ grants }: Principal) => allows(grants, membersObject, 'list');
  const hasUsers = relations.some(({ isList, reference }) => !isList && refersToUser(reference));
  if (hasUsers && canList(before) && !canList(now)) throw errors.forbidden(membersObject, 'list');
}

/** Maximum number of expanded records in a response, not counting the references of the records themselves. */
const maxExpanded = 10_000;
/** Maximum number of expanded records for a statement on a shared connection. */
const maxShared = 500;

/** Returns an issue if a response could contain too many expanded records. @param records maximum number of records */
export function expansionIssues(relations: readonly Relation[], records: number): FieldIssue[] {
  const count = records * (expandedRecords(relations) - referencedRecords(relations));
  if (count <= maxExpanded) return [];
  const message = `can add up to ${count} records, but the maximum is ${maxExpanded}. Expand fewer lists.`;
  return [parameterIssue('expand', message)];
}

/**
 * Returns the lane for the related records, or undefined if they do not require another lane: `scan` if they are many, or
 * if no index provides the order of a list.
 * @param records maximum number of records
 */
export const expansionLane = (
  { resources }: Pick<OperationContext, 'resources'>,
  relations: readonly Relation[],
  records: number,
): 'scan' | undefined =>
  records * expandedRecords(relations) > maxShared ||
  [...relations, ...relations.flatMap(nestedRelations)].some((relation) => {
    if (!relation.isList) return false;
    const target = targetOf(resources, relation);
    return !isInOrder(target, relation.reference, relation.order ?? target.stored.sort);
  })
    ? 'scan'
    : undefined;
