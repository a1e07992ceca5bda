import {
  type Database,
  foreignKeyViolation,
  rejectingRule,
  sqlState,
  type TextRows,
  uniqueViolation,
} from '../database/index.ts';
import type { ResourceDefinition, Unique } from '../definition/index.ts';
import { errors, type FieldIssue, type HttpError } from '../errors.ts';
import { type Field, isAssignable } from '../fields/index.ts';
import {
  type Cell,
  cell,
  column,
  type Placeholder,
  type Prepared,
  prepare,
  quote,
  record,
  rowDecoder,
} from '../sql/index.ts';
import { isMemberSql, tryStatements } from '../tables/index.ts';
import { allows } from './access.ts';
import { allPresentSql, itemValues, namesOf, sameKeySql } from './indexes.ts';
import {
  arrayTexts,
  type BatchItem,
  type ItemColumn,
  type ItemTable,
  type ItemValues,
  itemId,
} from './items.ts';
import type {
  BatchSplitter,
  CompiledOperation,
  ExplainRejection,
  OperationContext,
  OperationPlan,
} from './operation.ts';
import { organizationOf, visibleSql } from './rows.ts';

/** Returns whether the database rejected a write because of a reference or a unique field. */
export const isRejection = (cause: unknown): boolean =>
  [foreignKeyViolation, uniqueViolation].includes(sqlState(cause) ?? '');

/**
 * The records that a statement writes: new records, existing records found by ID (to replace or update), or
 * existing records found by unique values.
 */
type WriteTarget = 'create' | 'replace' | 'patch' | { readonly match: Unique };

/** Finds the items that the database rejects, and their errors. */
export interface RejectionFinder {
  /** Statement that checks the items; undefined if the database cannot reject any item. */
  readonly statement: Prepared<OperationPlan & ItemValues> | undefined;
  /** Returns the errors of rejected items by index, starting at 1. */
  readonly errors: (plan: OperationPlan, rows: TextRows) => ReadonlyMap<number, HttpError>;
}

const decodeNumber = rowDecoder({ number: cell.count });

/** Compiles a search for items with missing references, assigned users who are not members or duplicate unique values. */
export const createRejectionFinder = (
  definition: ResourceDefinition,
  table: ItemTable,
  writes: WriteTarget,
): RejectionFinder =>
  compileFinder(definition, table, writes, {
    references: definition.fields.filter((field) => field.type.refers && !field.readOnly),
    users: assignedFields(definition),
    uniques: definition.uniques,
  });

/** Compiles a search for items with assigned users who are not members, except users already stored in the record. */
export const createAssigneeFinder = (
  definition: ResourceDefinition,
  table: ItemTable,
  writes: WriteTarget,
): RejectionFinder =>
  compileFinder(definition, table, writes, {
    references: [],
    users: assignedFields(definition),
    uniques: [],
  });

const assignedFields = ({ fields }: ResourceDefinition): readonly Field[] => fields.filter(isAssignable);

/** The fields that a search checks. */
interface CheckedFields {
  readonly references: readonly Field[];
  /** Fields that contain users. */
  readonly users: readonly Field[];
  readonly uniques: ResourceDefinition['uniques'];
}

function compileFinder(
  definition: ResourceDefinition,
  table: ItemTable,
  writes: WriteTarget,
  { references, users, uniques }: CheckedFields,
): RejectionFinder {
  const { name } = definition;
  const uniqueFields = [...new Set(uniques.flat())];
  const missingReferences = [...references, ...users].map((field, index) =>
    missingReference(field, 1 + index),
  );
  const duplicateValues = uniques.map((unique, index) =>
    duplicate(unique, 1 + missingReferences.length + 2 * index),
  );
  const prepared = () =>
    // The statement is unnamed because it rarely runs.
    prepare<OperationPlan & ItemValues>('', 'batch', ($) => {
      const finalValue = (field: Field) => {
        const value = table.assignments(field)[0]?.value ?? 'null';
        if (writes === 'create' || writes === 'replace') return value;
        const updatedValue = `case when ${table.hasField(field)} then ${value} else ${column(field)} end`;
        return writes === 'patch'
          ? updatedValue
          : `case when ${record}."id" is null then ${value} else ${updatedValue} end`;
      };
      const existing = existingRecordSql(definition, table, writes, $);
      const submitted = (field: Field) =>
        `case when ${table.hasField(field)} then ${table.assignments(field)[0]?.value ?? 'null'} end`;
      const values = [
        ...uniqueFields.map((field, index) => `${finalValue(field)} as _u${index}`),
        // Only IDs from the request are checked, because error messages contain the IDs.
        ...references.map((field, index) => `${submitted(field)} as _r${index}`),
        ...users.flatMap((field, index) => [
          `${submitted(field)} as _p${index}`,
          `${writes === 'create' ? 'null::bigint' : column(field)} as _s${index}`,
        ]),
      ];
      const checkedAs = (field: Field) => `_v._u${uniqueFields.indexOf(field)}`;
      const missing = references.map((field, index) => {
        const id = `_v._r${index}`;
        const target = `select from ${quote(field.to ?? '')} where ${visibleSql($, '')} and "id" = ${id}`;
        return `case when not exists (${target}) then ${id}::text end`;
      });
      const strangers = users.map((_, index) => {
        const id = `_v._p${index}`;
        return `case when ${id} is distinct from _v._s${index} and not ${isMemberSql(organizationOf($), id)} then ${id}::text end`;
      });
      const duplicates = uniques.flatMap((unique) => {
        const keys = unique.map(checkedAs);
        return [
          `(${allPresentSql(unique, keys)} and count(*) over (partition by ${keys.join(', ')}) > 1)::text`,
          `(select ${record}."id" from ${quote(name)} ${record} where ${visibleSql($)} and ${sameKeySql(unique, keys)} and ${record}."id" is distinct from _v._own limit 1)::text`,
        ];
      });
      return `with ${table.expression($)}, _values as (select _i._n, ${[`${existing.id} as _own`, ...values].join(', ')} from _items _i${existing.join}) select ${['_v._n::text', ...missing, ...strangers, ...duplicates].join(', ')} from _values _v order by _v._n`;
    });
  return {
    statement: uniqueFields.length === 0 && missingReferences.length === 0 ? undefined : prepared(),
    errors: (plan, rows) => {
      const byNumber = new Map<number, HttpError>();
      const canRead = allows(plan.caller.principal.grants, name, 'read');
      for (const row of rows) {
        const missing = missingReferences.flatMap((issueOf) => issueOf(row, canRead) ?? []);
        // Missing references take precedence over duplicates.
        const [error] =
          missing.length > 0
            ? [errors.missingReferences(missing)]
            : duplicateValues.flatMap((errorOf) => errorOf(row, canRead) ?? []);
        if (error !== undefined) byNumber.set(decodeNumber(row).number, error);
      }
      return byNumber;
    },
  };
}

/** Explains the rejection of a single write. @param itemOf returns the record that a plan writes */
export function explainRejection<P extends OperationPlan>(
  { definition, items }: OperationContext,
  writes: WriteTarget,
  itemOf: (plan: P) => BatchItem,
): Pick<CompiledOperation<P>, 'rejection' | 'assignment'> {
  const explain = (finder: RejectionFinder): ExplainRejection<P> => ({
    statement: (plan) => {
      const columns: ItemColumn[] = [];
      items.add(columns, itemOf(plan));
      return finder.statement?.bind({ ...plan, columns: arrayTexts(columns), skipped: [] });
    },
    remaining: (plan, rows) => {
      const [error] = finder.errors(plan, rows).values();
      if (error !== undefined) throw error;
      return plan;
    },
  });
  const users = assignedFields(definition);
  const rejection = explain(createRejectionFinder(definition, items, writes));
  if (users.length === 0) return { rejection };
  const assignment = explain(createAssigneeFinder(definition, items, writes));
  return {
    rejection,
    assignment: {
      ...assignment,
      statement: (plan) => {
        const { body } = itemOf(plan);
        return users.some(({ name }) => body[name] !== undefined && body[name] !== null)
          ? assignment.statement(plan)
          : undefined;
      },
    },
  };
}

type ErrorOf<E> = (row: readonly Cell[], canRead: boolean) => E | undefined;

/**
 * Returns a function that reads a missing reference from a row.
 * @param column index of the reference's column
 */
function missingReference({ name, to }: Field, column: number): ErrorOf<FieldIssue> {
  const decode = rowDecoder({ id: cell.nullableText }, column);
  return (row) => {
    const { id } = decode(row);
    if (id === null) return undefined;
    const reason = to === undefined ? 'is not a member of this organization' : `does not exist in ${to}`;
    return { field: name, message: `${name} ${id} ${reason}` };
  };
}

/**
 * Returns a function that reads a duplicate from a row.
 * @param column index of the first of its two columns
 */
function duplicate(unique: Unique, column: number): ErrorOf<HttpError> {
  const decode = rowDecoder({ isRepeated: cell.flag, existing: cell.nullableText }, column);
  return (row, canRead) => {
    const { isRepeated, existing } = decode(row);
    if (existing !== null) return errors.duplicate(namesOf(unique), canRead ? existing : undefined);
    return isRepeated ? errors.duplicateInBatch(namesOf(unique)) : undefined;
  };
}

/**
 * Returns an SQL expression for the ID of the record that an item updates, and the join that finds this
 * record.
 */
function existingRecordSql(
  { name }: ResourceDefinition,
  table: ItemTable,
  writes: WriteTarget,
  $: Placeholder<OperationPlan>,
) {
  if (writes === 'create') return { id: 'null::bigint', join: '' };
  const condition =
    typeof writes === 'string'
      ? `${record}."id" = ${itemId}`
      : sameKeySql(writes.match, itemValues(table, writes.match));
  return {
    id: `${record}."id"`,
    join: ` left join ${quote(name)} ${record} on ${visibleSql($)} and ${condition}`,
  };
}

/**
 * Finds the batch items that an operator's constraint or trigger rejects, by writing successively smaller
 * subsets of the batch in a transaction that is rolled back. Runs at most two statements per item. A query
 * cannot find these items, because a constraint or trigger can run arbitrary code.
 * @returns the errors by item index; empty if each item is accepted on its own
 */
export function rejectedItems<P extends OperationPlan>(
  database: Database,
  plan: P,
  { numbers, statement }: BatchSplitter<P>,
): Promise<ReadonlyMap<number, HttpError>> {
  const failures = new Map<number, HttpError>();
  const reportedRules = new Set<string>();
  const findFailures = () =>
    tryStatements(database, async (attempt) => {
      const search = async (itemNumbers: readonly number[]): Promise<void> => {
        const cause = await attempt(await statement(plan, itemNumbers));
        if (cause === undefined) return;
        const rule = rejectingRule(cause);
        if (rule === undefined && !isRejection(cause)) throw cause;
        if (itemNumbers.length > 1) {
          const half = Math.ceil(itemNumbers.length / 2);
          await search(itemNumbers.slice(0, half));
          await search(itemNumbers.slice(half));
          return;
        }
        const [number] = itemNumbers;
        // Other rejections, for example because of missing references, are explained when the batch is written
        // without the failed items.
        if (rule === undefined || number === undefined) return;
        failures.set(number, errors.rejectedByDatabase(rule, cause));
        if (!reportedRules.has(rule)) database.reportRejection?.(plan.caller.requestId, cause);
        reportedRules.add(rule);
      };
      await search(numbers(plan));
      return failures;
    });
  return database.schedule(findFailures, { organization: plan.organization, lane: 'batch' });
}
