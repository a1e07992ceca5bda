import type { TextRows } from '../database/index.ts';
import { errors, type HttpError, type RecordReferrers } from '../errors.ts';
import {
  cell,
  literal,
  type Placeholder,
  type Prepared,
  quote,
  record,
  rowDecoder,
  trashedColumn,
  versionColumn,
} from '../sql/index.ts';
import { allows } from './access.ts';
import { prepareBatch } from './batch.ts';
import { clearReferencesSql } from './clear-references.ts';
import { type DeleteRules, deleteRulesOf, maxDeleted } from './delete-rules.ts';
import { type ItemTable, type ItemValues, itemId } from './items.ts';
import { referredId, referrerSource } from './link-tables.ts';
import type { Caller, OperationContext, OperationPlan } from './operation.ts';
import { type ConditionalPlan, preconditionsSql } from './preconditions.ts';
import { organizationOf, ownRowsSql, visibleSql } from './rows.ts';
import { effectsOf, tableOf } from './statements.ts';

// Aliases of a record that refers to a deleted record, and of a deleted record.
const [row, target] = ['r', '_t'];

/**
 * Returns a SELECT statement for the records that a delete removes: `_kind` is the index of their resource, `_id` their
 * ID and `_version` their version. At most one row more than the limit is returned.
 * @param roots a SELECT statement for the records to delete, with the same columns
 */
function targetsSql(
  { resources, cascade }: DeleteRules,
  $: Placeholder<OperationPlan>,
  roots: string,
): string {
  if (cascade.length === 0) return roots;
  const steps = cascade.map(
    ({ resource, column, target: to }) =>
      `select ${resources.indexOf(resource)}, ${row}."id", ${row}.${quote(versionColumn)} from ${quote(resource)} ${row} where ${ownRowsSql($, row)} and ${row}.${quote(column)} = _c._id and _c._kind = ${resources.indexOf(to)}`,
  );
  // UNION removes duplicates, so cycles end. PostgreSQL stops the recursion when the limit is reached.
  return `with recursive _closure as (${roots} union select _e.* from _closure _c cross join lateral (${steps.join(' union all ')}) _e(_kind, _id, _version)) select * from _closure limit ${maxDeleted + 1}`;
}

/**
 * Returns a join that runs a SELECT statement for each row of the preceding expression. PostgreSQL would otherwise
 * choose the order of the join, and read all deleted records for each row of a table that its statistics call empty.
 */
const forEach = (select: string, alias: string): string => `cross join lateral (${select} offset 0) ${alias}`;

/**
 * Returns the statement that removes records, without its RETURNING clause.
 * @param source additional FROM clause items
 */
export const removalSql = (
  { removal }: Pick<DeleteRules, 'removal'>,
  table: string,
  source: string | undefined,
  condition: string,
): string =>
  removal === 'trash'
    ? `update ${table} ${record} set ${quote(trashedColumn)} = now()${source === undefined ? '' : ` from ${source}`} where ${condition}`
    : `delete from ${table} ${record}${source === undefined ? '' : ` using ${source}`} where ${condition}`;

/**
 * Returns the condition on a record with a reference that prevents other records from being removed, starting with " and ".
 * Records in the trash do not prevent moving other records there.
 */
const restrictsSql = ({ removal }: DeleteRules, { hasTrash }: DeleteRules['restrict'][number]): string =>
  removal === 'trash' && hasTrash ? ` and ${row}.${quote(trashedColumn)} is null` : '';

/** Returns the columns of {@link targetsSql} for a record of the first resource. */
const rootColumns = `0 as _kind, ${record}."id" as _id, ${record}.${quote(versionColumn)} as _version`;

/**
 * Returns a FROM clause and condition for the records that prevent a delete because of a reference.
 * @param targets names of expressions with deleted records; the first contains the referenced records
 * @param organization SQL expression for the ID of the organization
 */
function restrictingSql(
  rules: DeleteRules,
  reference: DeleteRules['restrict'][number],
  [first, ...others]: readonly [string, ...string[]],
  visible: string,
  organization: string,
): string {
  const { resources } = rules;
  const kind = resources.indexOf(reference.resource);
  // Uncorrelated, so that PostgreSQL hashes the deleted records.
  const exclusions = [first, ...others].map(
    (name) => ` and ${row}."id" not in (select _d._id from ${name} _d where _d._kind = ${kind})`,
  );
  // An array, because PostgreSQL could join each row of a table that its statistics call empty with all deleted records,
  // or read all of the table's rows for each deleted record.
  const removed = `select ${target}._id from ${first} ${target} where ${target}._kind = ${resources.indexOf(reference.target)}`;
  return `from ${referrerSource(reference, row, organization)} where ${visible}${restrictsSql(rules, reference)} and ${referredId(reference, row)} = any (array(${removed}))${kind === -1 ? '' : exclusions.join('')}`;
}

/** The records to delete, as parts of a statement. */
interface Roots {
  /** FROM clause items and the condition that select the records. */
  readonly source: string;
  /** Additional condition for deleting anything, starting with `and`. */
  readonly condition?: string;
}

/**
 * Returns the common table expressions that delete records, the records that depend on them, and references to all of
 * these records, each with its effects. `_allowed` is empty, and nothing is deleted, if another record prevents the
 * delete, if too many records would be deleted, or if one of them was changed concurrently.
 */
export function deletionSql(
  context: OperationContext,
  rules: DeleteRules,
  $: Placeholder<OperationPlan>,
  { source, condition = '' }: Roots,
): string {
  const { resources, restrict } = rules;
  const version = quote(versionColumn);
  // Locking only unchanged rows proves that they still refer to the deleted records. A reference that is added
  // concurrently violates its foreign key.
  const locked = resources.map(
    (resource, kind) =>
      `_locked_${kind} as materialized (select ${row}."id" from (select * from _targets where _kind = ${kind} order by _id) ${target} ${forEach(`select ${row}."id" from ${quote(resource)} ${row} where ${ownRowsSql($, row)} and ${row}."id" = ${target}._id and ${row}.${version} = ${target}._version for update of ${row}`, row)})`,
  );
  const counts = resources.map((_, kind) => `(select count(*) from _locked_${kind})`).join(' + ');
  const conditions = [
    `(select count(*) from _targets) <= ${maxDeleted}`,
    `(select count(*) from _targets) = ${counts}`,
    ...restrict.map(
      (reference) =>
        `not exists (select ${restrictingSql(rules, reference, ['_targets'], ownRowsSql($, row), organizationOf($))})`,
    ),
  ];
  const deletes = resources.map((resource, kind) => {
    const name = deletedName(kind);
    const projection = context.resources.get(resource)?.projection;
    if (projection === undefined) throw new Error(`Unknown resource ${resource}`);
    const written = { definition: { name: resource }, effects: context.effects, projection };
    // Records that depend on purged records are deleted.
    const removal = kind === 0 ? rules.removal : 'delete';
    const removed = removalSql(
      { removal },
      quote(resource),
      undefined,
      `${ownRowsSql($, record)} and ${record}."id" = any (array(select "id" from _locked_${kind})) and exists (select from _allowed)`,
    );
    return `${name} as (${removed} returning ${record}.*)${effectsOf(written, removal, $, { name, isMany: true })}`;
  });
  const roots = `select ${rootColumns} from ${source}`;
  const clearing = clearReferencesSql(context, rules, $, {
    deletedFrom: (resource) => deletedName(resources.indexOf(resource)),
    deletedRows: (resource) =>
      resources.includes(resource) ? `_locked_${resources.indexOf(resource)}` : undefined,
  });
  return `_targets as materialized (${targetsSql(rules, $, roots)}), ${locked.join(', ')}, _allowed as materialized (select 1 where ${conditions.join(' and ')}${condition}), ${deletes.join(', ')}${clearing}`;
}

/** Returns the name of the expression with the deleted rows of a resource. */
const deletedName = (kind: number): string => (kind === 0 ? '_written' : `_deleted_${kind}`);

/** A plan for finding the records that a delete would also remove. */
interface DependentsPlan extends OperationPlan {
  readonly ids: readonly string[];
}

/**
 * Compiles the search for the records that a delete removes because they depend on other records: their resource as
 * `resource` and their ID as `id`. At most one row more than the maximum number of deleted records is returned.
 * @returns undefined if deletes do not remove other records
 */
export function findDependents(context: OperationContext): Prepared<DependentsPlan> | undefined {
  const rules = deleteRulesOf(context.definition.name, context.referrers, 'delete');
  if (rules.cascade.length === 0) return undefined;
  return prepareBatch<DependentsPlan>(($) => {
    organizationOf($);
    const roots = `select ${rootColumns} from ${tableOf(context)} ${record} where ${visibleSql(context, 'delete', $)} and ${record}."id" = any (${$(({ ids }) => ids)}::bigint[])`;
    const names = rules.resources.map(literal).join(', ');
    return `select (array[${names}])[${target}._kind + 1] as "resource", ${target}._id::text as "id" from (${targetsSql(rules, $, roots)}) ${target}`;
  });
}

/** Returns the condition that no record prevents the delete of `t`, for deletes without cascades. */
export const unreferencedSql = (rules: DeleteRules): string =>
  rules.restrict
    .map(
      (reference) =>
        ` and not exists (select from ${referrerSource(reference, row, `${record}."organization_id"`)} where ${row}."organization_id" = ${record}."organization_id" and ${referredId(reference, row)} = ${record}."id"${restrictsSql(rules, reference)}${reference.resource === rules.resources[0] ? ` and ${row}."id" <> ${record}."id"` : ''})`,
    )
    .join('');

/** Returns the condition that the caller can see a record and its reference. */
function visibleReferrersSql(
  { resources }: OperationContext,
  { resource, field }: DeleteRules['restrict'][number],
  $: Placeholder<OperationPlan>,
): string {
  const visible = resources.get(resource);
  return visible?.definition.fields.some(({ name }) => name === field)
    ? visibleSql(visible, 'read', $, row)
    : `${ownRowsSql($, row)} and false`;
}

/** A plan whose deletes can be explained. */
interface ExplainedPlan extends OperationPlan, ItemValues, ConditionalPlan {
  /** Whether records that other items delete also prevent an item's delete. */
  readonly isSeparate: boolean;
}

/** Finds the reasons why records were not deleted. */
export interface DeleteExplanation {
  readonly statement: Prepared<ExplainedPlan>;
  /**
   * Returns the errors of items by index, starting at 1.
   * @throws HttpError 409 if all items together would delete too many records
   */
  readonly errors: (plan: OperationPlan, rows: TextRows) => ReadonlyMap<number, HttpError>;
}

/** Maximum number of records to count for an error. */
const maxCounted = 1000;

const decodeReason = rowDecoder({
  number: cell.count,
  exists: cell.flag,
  isMet: cell.flag,
  total: cell.count,
  deleted: cell.count,
});
const reasonColumns = 5;

/** Compiles the search for the reasons why records were not deleted. */
export function explainDeletes(
  context: OperationContext,
  rules: DeleteRules,
  table: ItemTable,
  missing: HttpError,
): DeleteExplanation {
  const { restrict } = rules;
  const decoders = restrict.map((_, index) =>
    rowDecoder({ isReferenced: cell.flag, count: cell.count }, reasonColumns + 2 * index),
  );
  const statement = prepareBatch<ExplainedPlan>(($) => {
    organizationOf($);
    const items = table.expression($);
    const isSeparate = `${$((plan) => String(plan.isSeparate))}::text::boolean`;
    const allRoots = `select ${rootColumns} from _items _i join ${tableOf(context)} ${record} on ${visibleSql(context, 'delete', $)} and ${record}."id" = ${itemId} and not ${isSeparate}`;
    const ownRoots = `select ${rootColumns}`;
    const isMet = `coalesce(${preconditionsSql(context, $)}, true)`;
    const references = restrict.flatMap((reference, index) => {
      const records = (visible: string) =>
        restrictingSql(rules, reference, ['_own', '_all'], visible, organizationOf($));
      return [
        `exists (select ${records(ownRowsSql($, row))}) as _e${index}`,
        `(select count(*) from (select ${records(visibleReferrersSql(context, reference, $))} limit ${maxCounted + 1}) _b) as _c${index}`,
      ];
    });
    const columns = [
      '_i._n',
      `${record}."id" is not null`,
      isMet,
      '(select count(*) from _all)',
      'coalesce(_x._deleted, 0)',
      ...restrict.flatMap((_, index) => [`coalesce(_x._e${index}, false)`, `coalesce(_x._c${index}, 0)`]),
    ];
    return `with ${items}, _all as materialized (${targetsSql(rules, $, allRoots)}) select ${columns.map((value, index) => `(${value})::text as _k${index}`).join(', ')} from _items _i left join ${tableOf(context)} ${record} on ${visibleSql(context, 'delete', $)} and ${record}."id" = ${itemId} left join lateral (with _own as materialized (${targetsSql(rules, $, ownRoots)}) select ${['(select count(*) from _own) as _deleted', ...references].join(', ')}) _x on ${record}."id" is not null order by _i._n`;
  });
  const referrersOf = (cells: TextRows[number], { principal }: Caller): RecordReferrers[] =>
    restrict.flatMap(({ resource, field }, index) => {
      const { isReferenced, count } = decoders[index]?.(cells) ?? { isReferenced: false, count: 0 };
      const referring = context.resources.get(resource)?.stored ?? resource;
      const visible = allows(principal.grants, referring, 'read') ? count : 0;
      return isReferenced
        ? [{ resource, field, count: Math.min(visible, maxCounted), isMore: visible > maxCounted }]
        : [];
    });
  return {
    statement,
    errors: ({ caller }, rows) => {
      const failures = new Map<number, HttpError>();
      const { singular } = context.definition;
      let isTooLarge = false;
      for (const cells of rows) {
        const { number, exists, isMet, total, deleted } = decodeReason(cells);
        const referrers = referrersOf(cells, caller);
        isTooLarge ||= total > maxDeleted;
        if (!exists) failures.set(number, missing);
        else if (!isMet) failures.set(number, errors.preconditionFailed());
        else if (deleted > maxDeleted) failures.set(number, errors.cascadeTooLarge(maxDeleted));
        // Of too many records, only some are known, so that the remaining ones would seem to prevent the delete.
        else if (referrers.length > 0 && total <= maxDeleted)
          failures.set(number, errors.referenced(singular, referrers));
      }
      if (failures.size === 0 && isTooLarge) throw errors.cascadeTooLarge(maxDeleted);
      return failures;
    },
  };
}
