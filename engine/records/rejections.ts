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
import type { Field } from '../fields/index.ts';
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
import { tryStatements } from '../tables/index.ts';
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
import type { BatchSplitter, ExplainRejection, OperationContext, OperationPlan } from './operation.ts';
import { visibleSql } from './rows.ts';

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

/** Compiles a search for items with missing references or duplicate unique values. */
export function createRejectionFinder(
  definition: ResourceDefinition,
  table: ItemTable,
  writes: WriteTarget,
): RejectionFinder {
  const { name, fields, uniques } = definition;
  const references = fields.filter((field) => field.type.refers && !field.readOnly);
  const uniqueFields = [...new Set(uniques.flat())];
  const missingReferences = references.map((field, index) => missingReference(field, 1 + index));
  const duplicateValues = uniques.map((unique, index) =>
    duplicate(unique, 1 + references.length + 2 * index),
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
      const values = [
        ...uniqueFields.map((field, index) => `${finalValue(field)} as _u${index}`),
        // Only IDs from the request are checked, because error messages contain the IDs.
        ...references.map(
          (field, index) =>
            `case when ${table.hasField(field)} then ${table.assignments(field)[0]?.value ?? 'null'} end as _r${index}`,
        ),
      ];
      const checkedAs = (field: Field) => `_v._u${uniqueFields.indexOf(field)}`;
      const missing = references.map((field, index) => {
        const id = `_v._r${index}`;
        const target = `select from ${quote(field.to ?? '')} where ${visibleSql($, '')} and "id" = ${id}`;
        return `case when not exists (${target}) then ${id}::text end`;
      });
      const duplicates = uniques.flatMap((unique) => {
        const keys = unique.map(checkedAs);
        return [
          `(${allPresentSql(unique, keys)} and count(*) over (partition by ${keys.join(', ')}) > 1)::text`,
          `(select ${record}."id" from ${quote(name)} ${record} where ${visibleSql($)} and ${sameKeySql(unique, keys)} and ${record}."id" is distinct from _v._own limit 1)::text`,
        ];
      });
      return `with ${table.expression($)}, _values as (select _i._n, ${[`${existing.id} as _own`, ...values].join(', ')} from _items _i${existing.join}) select ${['_v._n::text', ...missing, ...duplicates].join(', ')} from _values _v order by _v._n`;
    });
  return {
    statement: uniqueFields.length === 0 && references.length === 0 ? undefined : prepared(),
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
): { readonly rejection: ExplainRejection<P> } {
  const finder = createRejectionFinder(definition, items, writes);
  return {
    rejection: {
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
    return id === null ? undefined : { field: name, message: `${name} ${id} does not exist in ${to}` };
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
