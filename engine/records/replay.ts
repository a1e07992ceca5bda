import type { TextRows } from '../database/index.ts';
import { errors } from '../errors.ts';
import { cell, prepare, quote, record, rowDecoder, type Statement } from '../sql/index.ts';
import { allows } from './access.ts';
import { absentItem } from './batch.ts';
import { type IdempotentPlan, type IdempotentResult, idempotentResult } from './idempotency.ts';
import type { OperationContext } from './operation.ts';
import { entityTag } from './preconditions.ts';
import { visibleSql } from './rows.ts';
import { byIdSql, decodeWritten, foundRow, selectResult, statementName, tableOf } from './statements.ts';

/** The results of writes that run once per key. */
interface IdempotentResults<P extends IdempotentPlan> {
  /** Returns a second statement if the stored response must be read again. */
  readonly followUp?: (plan: P, rows: TextRows) => Statement | undefined;
  /**
   * Returns the result of a plan.
   * @throws HttpError in the same cases as {@link idempotentResult}; 404 if the caller can no longer read the record
   */
  readonly result: (plan: P, rows: TextRows) => IdempotentResult;
}

/**
 * Compiles the results of requests that create one record. If the caller's rights are limited, a stored response is never
 * returned, because the rights can have changed: the record is read again.
 */
export function recordResults<P extends IdempotentPlan>(context: OperationContext): IdempotentResults<P> {
  if (context.view === '') return { result: idempotentResult };
  const current = prepare<P & { readonly id: string }>(
    statementName(context, 'replay'),
    'read',
    ($) => `${selectResult(context, tableOf(context), $)} where ${byIdSql(context, 'read', $)}`,
  );
  return {
    followUp: (plan, rows) => {
      if (plan.idempotency === undefined) return undefined;
      const { id, isReplayed } = idempotentResult(plan, rows);
      return isReplayed && canRead(context, plan) ? current.bind({ ...plan, id }) : undefined;
    },
    result: (plan, rows) => {
      const stored = idempotentResult(plan, rows);
      if (!stored.isReplayed) return stored;
      if (canRead(context, plan)) {
        const { json, versions, id } = decodeWritten(foundRow(context, rows.slice(1)));
        return { json, tag: entityTag(context, versions), id, isReplayed: true };
      }
      // A caller that cannot read any record sees only what it wrote itself, in the projection of that time.
      if (!stored.tag.endsWith(`-${context.projection.mark}`))
        throw errors.recordNotFound(context.definition.singular);
      return stored;
    },
  };
}

/** The plan for reading a stored batch response. */
interface StoredBatch {
  readonly json: string;
  readonly canRead: boolean;
}

const decodeBatch = rowDecoder({ json: cell.encoded });

/**
 * Compiles the results of requests that create a batch of records. If the caller's rights are limited, records that the
 * caller can no longer read are reported as missing.
 */
export function batchResults<P extends IdempotentPlan>(context: OperationContext): IdempotentResults<P> {
  if (context.view === '') return { result: idempotentResult };
  const current = prepare<P & StoredBatch>(statementName(context, 'batch_replay'), 'deep', ($) => {
    const isVisible = (key: string) =>
      `exists (select from ${tableOf(context)} ${record} where ${visibleSql(context, 'read', $)} and ${record}."id" = (_r.value ->> '${key}')::bigint)`;
    const canReadSql = `${$(({ canRead }) => String(canRead))}::text::boolean`;
    // The ID of the existing record is the last property.
    const withoutExisting = `regexp_replace(_r.value::text, ',"existing_id":[0-9]+}$', '}')`;
    const item = `case when _r.value ->> 'id' is not null and ${canReadSql} and not ${isVisible('id')} then ${$(() => absentItem)}::text when _r.value ->> 'existing_id' is not null and not (${canReadSql} and ${isVisible('existing_id')}) then ${withoutExisting} else _r.value::text end`;
    return `select '{"results":[' || string_agg(${item}, ',' order by _r.n) || ']}' as ${quote('record')} from json_array_elements(${$(({ json }) => json)}::json -> 'results') with ordinality _r(value, n)`;
  });
  return {
    followUp: (plan, rows) => {
      if (plan.idempotency === undefined) return undefined;
      const { json, isReplayed } = idempotentResult(plan, rows);
      return isReplayed
        ? current.bind({ ...plan, json: String(json), canRead: canRead(context, plan) })
        : undefined;
    },
    result: (plan, rows) => {
      const stored = idempotentResult(plan, rows);
      const [, row] = rows;
      return row === undefined ? stored : { ...stored, ...decodeBatch(row) };
    },
  };
}

const canRead = ({ stored }: OperationContext, { caller }: IdempotentPlan): boolean =>
  allows(caller.principal.grants, stored, 'read');
