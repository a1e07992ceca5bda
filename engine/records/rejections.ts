import {
  foreignKeyViolation,
  rejectingRule,
  sqlState,
  type TextRows,
  uniqueViolation,
} from '../database/index.ts';
import type { ResourceDefinition, Unique } from '../definition/index.ts';
import { errors, type FieldIssue, type HttpError, type IssueReason, reasonKey } from '../errors.ts';
import { type Field, linksOf, namesMember, referenceName, refersToMany } from '../fields/index.ts';
import {
  type Cell,
  cell,
  column,
  type Placeholder,
  prepare,
  quote,
  record,
  rowDecoder,
  type Statement,
  trashedColumn,
} from '../sql/index.ts';
import { isMemberSql } from '../tables/index.ts';
import { allows } from './access.ts';
import { withDefaults } from './default-values.ts';
import type { Attempt, Executor } from './executor.ts';
import { isStoredSql, type KeyedPlan } from './idempotency.ts';
import {
  allPresentSql,
  comparableSql,
  matchedSql,
  matchesSeveral,
  namesOf,
  sameKeySql,
  showsValues,
} from './indexes.ts';
import { type BatchItem, type ItemColumn, type ItemTable, type ItemValues, itemId } from './items.ts';
import type {
  BatchSplitter,
  CompiledOperation,
  ExplainRejection,
  OperationContext,
  OperationPlan,
} from './operation.ts';
import {
  checksReferences,
  limitSql,
  organizationOf,
  outsideScope,
  ownRowsSql,
  referenceLimitSql,
  referenceScopeSql,
  trashSql,
  visibleSql,
} from './rows.ts';
import { tableOf } from './statements.ts';
import { runAtomically } from './transactions.ts';
import type { ExplainViolation } from './violations.ts';

/** Returns whether the database rejected a write because of a reference or a unique field. */
export const isRejection = (cause: unknown): boolean =>
  [foreignKeyViolation, uniqueViolation].includes(sqlState(cause) ?? '');

/**
 * The records that a statement writes: new records, existing records found by ID (to replace or update), or
 * existing records found by unique values.
 */
type WriteTarget = 'create' | 'replace' | 'patch' | { readonly match: Unique };

/** A plan with items to check. */
type CheckedPlan = KeyedPlan & ItemValues;

/** Finds the items that the database rejects, and their errors. */
export interface RejectionFinder {
  /** Returns the statement that checks the items; undefined if none of them can be rejected. */
  readonly statement: (plan: CheckedPlan) => Statement | undefined;
  /** Returns the errors of rejected items by index, starting at 1. */
  readonly errors: (plan: OperationPlan, rows: TextRows) => ReadonlyMap<number, HttpError>;
}

const decodeNumber = rowDecoder({ number: cell.count });

/** Compiles a search for items with missing references, assigned users who are not members or duplicate unique values. */
export const createRejectionFinder = (
  context: OperationContext,
  table: ItemTable,
  writes: WriteTarget,
): RejectionFinder =>
  compileFinder(context, table, writes, {
    references: writtenReferences(context),
    users: memberFields(context),
    uniques: context.stored.uniques,
  });

/**
 * Compiles a search for items with values that the database accepts, but the caller cannot assign: users who are not
 * members, and records that the caller cannot read or that are in the trash. Values already stored in the record are accepted.
 * @param path the path that idempotency keys are scoped to. A request whose response is stored is not checked, because
 * it is not executed again
 */
export function createAssigneeFinder(
  context: OperationContext,
  table: ItemTable,
  writes: WriteTarget,
  path?: string,
): RejectionFinder {
  const references = limitedReferences(context);
  const users = memberFields(context);
  const finder = compileFinder(context, table, writes, { references, users, uniques: [] }, path);
  return {
    ...finder,
    statement: (plan) =>
      [...references.map(({ field }) => field), ...users].some((field) => table.hasValue(plan, field))
        ? finder.statement(plan)
        : undefined,
  };
}

const memberFields = ({ definition }: OperationContext): readonly Field[] =>
  definition.fields.filter(namesMember);

/** A reference to a single resource that a request can set. */
interface WrittenReference {
  readonly link: Field;
  /** The field whose value contains the reference, and the index of the reference's column among the field's columns. */
  readonly field: Field;
  readonly index: number;
}

const writtenReferences = ({ definition, parentReference }: OperationContext): readonly WrittenReference[] =>
  definition.fields
    .filter((field) => field.type.refers && !field.readOnly && field.name !== parentReference)
    .flatMap((field) => linksOf(field).map((link, index) => ({ link, field, index })));

/** Returns the references that can lead to records that exist but cannot be assigned. */
const limitedReferences = (context: OperationContext): readonly WrittenReference[] =>
  writtenReferences(context).filter(({ link: { to = '' } }) => checksReferences(context.resources.get(to)));

/** The fields that a search checks. */
interface CheckedFields {
  readonly references: readonly WrittenReference[];
  /** Fields that contain users. */
  readonly users: readonly Field[];
  readonly uniques: ResourceDefinition['uniques'];
}

function compileFinder(
  context: OperationContext,
  table: ItemTable,
  writes: WriteTarget,
  { references, users, uniques }: CheckedFields,
  path?: string,
): RejectionFinder {
  const { definition, resources, stored } = context;
  const { name } = definition;
  const uniqueFields = [...new Set(uniques.flat())];
  const missingReferences = [...references.map(({ link }) => link), ...users].map((field, index) =>
    missingReference(field, 1 + index),
  );
  const duplicateValues = uniques.map((unique, index) =>
    duplicate(unique, 1 + missingReferences.length + 2 * index, showsValues(definition, unique)),
  );
  /** The unique fields of items that can identify several records. */
  const severalMatches =
    typeof writes === 'object' && matchesSeveral(table, writes.match) ? writes.match : undefined;
  const ambiguityColumn = 1 + missingReferences.length + 2 * uniques.length;
  const decodeAmbiguity = rowDecoder({ isAmbiguous: cell.flag }, ambiguityColumn);
  const prepared = () =>
    // The statement is unnamed because it rarely runs.
    prepare<CheckedPlan>('', 'batch', ($) => {
      // Other defaults could register parameters that the statement does not use, whose type PostgreSQL could not determine.
      const defaults = new Map(
        [...stored.defaults].filter(([name]) => uniqueFields.some((field) => field.name === name)),
      );
      const created = new Map(
        withDefaults(
          { ...stored, defaults },
          stored.fields.filter(({ readOnly }) => !readOnly).flatMap(table.assignments),
          $,
          table.hasField,
        ).map(({ column: name, value }) => [name, value]),
      );
      const finalValue = (field: Field) => {
        const value = table.assignments(field)[0]?.value ?? 'null';
        const createdValue = created.get(quote(field.name)) ?? value;
        if (writes === 'create') return createdValue;
        if (writes === 'replace') return value;
        const updatedValue = `case when ${table.hasField(field)} then ${value} else ${column(field)} end`;
        return writes === 'patch'
          ? updatedValue
          : `case when ${record}."id" is null then ${createdValue} else ${updatedValue} end`;
      };
      const existing = existingRecordSql(context, table, writes, $);
      const isLimited = ({ to = '' }: Field) => checksReferences(resources.get(to));
      const storedValue = (field: Field) =>
        writes === 'create' ? `null::bigint${refersToMany(field) ? '[]' : ''}` : column(field);
      const submitted = (field: Field, column = 0) =>
        `case when ${table.hasField(field)} then ${table.assignments(field)[column]?.value ?? 'null'} end`;
      const values = [
        ...uniqueFields.map((field, index) => `${finalValue(field)} as _u${index}`),
        // Only IDs from the request are checked, because error messages contain the IDs.
        ...references.flatMap(({ link, field, index: column }, index) => [
          refersToMany(field)
            ? `case when ${table.hasField(field)} then ${table.parameters(field)[0]}::bigint[] end as _r${index}`
            : `${submitted(field, column)} as _r${index}`,
          ...(isLimited(link) && (!refersToMany(field) || resources.get(link.to ?? '')?.definition.trash)
            ? [`${storedValue(link)} as _o${index}`]
            : []),
        ]),
        ...users.flatMap((field, index) => [
          `${submitted(field)} as _p${index}`,
          `${storedValue(field)} as _s${index}`,
        ]),
      ];
      const checkedAs = (field: Field) => `_v._u${uniqueFields.indexOf(field)}`;
      const missing = references.map(({ link }, index) => {
        const id = refersToMany(link) ? '_e._id' : `_v._r${index}`;
        const rows = `select from ${quote(link.to ?? '')} _x where ${ownRowsSql($, '_x')} and _x."id" = ${id}`;
        const target = resources.get(link.to ?? '');
        if (refersToMany(link)) {
          const untrashed = target?.definition.trash && `_x.${quote(trashedColumn)} is null`;
          // An unchanged reference to a record in the trash is accepted.
          const trash = untrashed === undefined ? '' : ` and (${untrashed} or ${id} = any(_v._o${index}))`;
          const limits = target === undefined ? '' : `${referenceScopeSql(target, $, '_x')}${trash}`;
          return `(select '[' || _e._n - 1 || '] ' || _e._id from unnest(_v._r${index}) with ordinality _e(_id, _n) where not exists (${rows}${limits}) order by _e._n limit 1)`;
        }
        if (target === undefined || !isLimited(link))
          return `case when not exists (${rows}) then ${id}::text end`;
        // An unchanged reference to a record that the caller cannot read is accepted.
        return `case when ${id} is distinct from _v._o${index} and not exists (${rows}${referenceLimitSql(target, $, '_x')}) then ${id}::text end`;
      });
      const strangers = users.map((_, index) => {
        const id = `_v._p${index}`;
        return `case when ${id} is distinct from _v._s${index} and not ${isMemberSql(organizationOf($), id)} then ${id}::text end`;
      });
      const duplicates = uniques.flatMap((unique) => {
        const keys = unique.map(checkedAs);
        return [
          `(${allPresentSql(unique, keys)} and count(*) over (partition by ${unique.map((field) => comparableSql(field, checkedAs(field))).join(', ')}) > 1)::text`,
          `(select case when true${limitSql(context, 'read', $)} then ${record}."id"::text else '' end from ${quote(name)} ${record} where ${ownRowsSql($)}${trashSql(context)} and ${sameKeySql(unique, keys)} and ${record}."id" is distinct from _v._own limit 1)`,
        ];
      });
      const ambiguity =
        severalMatches === undefined ? [] : ['(count(*) over (partition by _v._n) > 1)::text'];
      const isReplay = path === undefined ? '' : ` where not ${isStoredSql($, path)}`;
      return `with ${table.expression($)}, _values as (select _i._n, ${[`${existing.id} as _own`, ...values].join(', ')} from _items _i${existing.join}) select ${['_v._n::text', ...missing, ...strangers, ...duplicates, ...ambiguity].join(', ')} from _values _v${isReplay} order by _v._n`;
    });
  const statement = uniqueFields.length === 0 && missingReferences.length === 0 ? undefined : prepared();
  return {
    statement: (plan) => statement?.bind(plan),
    errors: (plan, rows) => {
      const byNumber = new Map<number, HttpError>();
      const canRead = allows(plan.caller.principal.grants, stored, 'read');
      for (const row of rows) {
        const missing = missingReferences.flatMap((issueOf) => issueOf(row, canRead) ?? []);
        // Missing references take precedence over duplicates.
        const [error] =
          severalMatches !== undefined && decodeAmbiguity(row).isAmbiguous
            ? [errors.ambiguousMatch(namesOf(severalMatches))]
            : missing.length > 0
              ? [errors.missingReferences(missing)]
              : duplicateValues.flatMap((errorOf) => errorOf(row, canRead) ?? []);
        if (error !== undefined) byNumber.set(decodeNumber(row).number, error);
      }
      return byNumber;
    },
  };
}

/**
 * Explains the rejection of a single write.
 * @param itemOf returns the record that a plan writes
 * @param path see {@link createAssigneeFinder}
 */
export function explainRejection<P extends OperationPlan>(
  context: OperationContext,
  writes: WriteTarget,
  itemOf: (plan: P) => BatchItem,
  path?: string,
): Pick<CompiledOperation<P>, 'rejection' | 'assignment'> {
  const { items } = context;
  const explain = (finder: RejectionFinder): ExplainRejection<P> => ({
    statement: (plan) => {
      const columns: ItemColumn[] = [];
      items.add(columns, itemOf(plan));
      return finder.statement({ ...plan, columns, skipped: [] });
    },
    remaining: (plan, rows) => {
      const [error] = finder.errors(plan, rows).values();
      if (error !== undefined) throw error;
      return plan;
    },
  });
  const rejection = explain(createRejectionFinder(context, items, writes));
  return memberFields(context).length + limitedReferences(context).length === 0
    ? { rejection }
    : { rejection, assignment: explain(createAssigneeFinder(context, items, writes, path)) };
}

type ErrorOf<E> = (row: readonly Cell[], canRead: boolean) => E | undefined;

/**
 * Returns a function that reads a missing reference from a row.
 * @param column index of the reference's column
 */
function missingReference(reference: Field, column: number): ErrorOf<FieldIssue> {
  const { to } = reference;
  const name = referenceName(reference);
  const isList = refersToMany(reference);
  const decode = rowDecoder({ id: cell.nullableText }, column);
  return (row) => {
    const { id } = decode(row);
    if (id === null) return undefined;
    const text = to === undefined ? 'is not a member of this organization' : `does not exist in ${to}`;
    const reasonOf = (missing: string): IssueReason =>
      to === undefined ? { kind: 'notMember' } : { kind: 'missingRecord', id: missing };
    if (!isList) return { field: name, message: `${name} ${id} ${text}`, [reasonKey]: reasonOf(id) };
    // The ID of a list's element follows the element's position.
    const [position, element = ''] = id.split(' ');
    return {
      field: `${name}${position}`,
      message: `${name}${id} ${text}`,
      [reasonKey]: reasonOf(element),
    };
  };
}

/**
 * Returns a function that reads a duplicate from a row.
 * @param column index of the first of its two columns
 * @param isVisible whether the caller can read the unique values
 */
function duplicate(unique: Unique, column: number, isVisible: boolean): ErrorOf<HttpError> {
  const decode = rowDecoder({ isRepeated: cell.flag, existing: cell.nullableText }, column);
  return (row, canRead) => {
    const { isRepeated, existing } = decode(row);
    // The ID is empty if the caller cannot read the record. If it cannot read the values, the ID would reveal them.
    if (existing !== null)
      return errors.duplicate(
        namesOf(unique),
        canRead && isVisible && existing !== '' ? existing : undefined,
      );
    return isRepeated ? errors.duplicateInBatch(namesOf(unique)) : undefined;
  };
}

/**
 * Returns an SQL expression for the ID of the record that an item updates, and the join that finds this
 * record.
 */
function existingRecordSql(
  context: OperationContext,
  table: ItemTable,
  writes: WriteTarget,
  $: Placeholder<OperationPlan>,
) {
  if (writes === 'create') return { id: 'null::bigint', join: '' };
  const condition =
    typeof writes === 'string' ? `${record}."id" = ${itemId}` : matchedSql(table, writes.match);
  return {
    id: `${record}."id"`,
    join: ` left join ${tableOf(context)} ${record} on ${visibleSql(context, 'update', $)} and ${condition}`,
  };
}

/** Number of failed items after which the search for others ends: the size of a batch. Bulk changes have more items. */
const maxFailures = 1000;

/**
 * Finds the batch items that an operator's constraint or trigger rejects, or that would leave the caller's scopes, by
 * writing successively smaller subsets of the batch in a transaction that is rolled back. Runs at most two statements per item. A query
 * cannot find these items, because a constraint or trigger can run arbitrary code.
 * @returns the errors by item index; empty if each item is accepted on its own
 */
export function rejectedItems<P extends OperationPlan>(
  database: Executor,
  plan: P,
  { numbers, statement }: BatchSplitter<P>,
  violation?: ExplainViolation,
): Promise<ReadonlyMap<number, HttpError>> {
  const findFailures = async (attempt: Attempt) => {
    const failures = new Map<number, HttpError>();
    const reportedRules = new Set<string>();
    const search = async (itemNumbers: readonly number[]): Promise<void> => {
      if (failures.size >= maxFailures) return;
      const cause = await attempt(await statement(plan, itemNumbers));
      if (cause === undefined) return;
      const rule = rejectingRule(cause);
      const explained = outsideScope(cause) ?? violation?.(cause);
      if (rule === undefined && explained === undefined && !isRejection(cause)) throw cause;
      if (itemNumbers.length > 1) {
        const half = Math.ceil(itemNumbers.length / 2);
        await search(itemNumbers.slice(0, half));
        await search(itemNumbers.slice(half));
        return;
      }
      const [number] = itemNumbers;
      if (explained !== undefined && number !== undefined) failures.set(number, explained);
      // Other rejections, for example because of missing references, are explained when the batch is written
      // without the failed items.
      if (rule === undefined || explained !== undefined || number === undefined) return;
      failures.set(number, errors.rejectedByDatabase(rule, cause));
      if (!reportedRules.has(rule)) database.reportRejection?.(plan.caller.requestId, cause);
      reportedRules.add(rule);
    };
    await search(numbers(plan));
    return failures;
  };
  if ('tryStatements' in database) return database.tryStatements(findFailures);
  return runAtomically(database, plan, {
    lane: 'batch',
    run: (executor) => executor.tryStatements(findFailures),
  });
}
