import { hash } from 'node:crypto';
import type { Generated } from 'kysely';
import { type TextRows, violatedConstraint } from '../database/index.ts';
import { errors } from '../errors.ts';
import { literal, type Placeholder } from '../sql/index.ts';
import { bigintColumn, defineTable, now, textColumn } from '../tables/index.ts';
import type { OperationPlan, OperationRequest, OperationResponse } from './operation.ts';
import { quotedTag } from './preconditions.ts';
import { organizationOf } from './rows.ts';

declare module '../tables/index.ts' {
  interface TableRows {
    crm_idempotency: {
      organization_id: string;
      caller: string;
      path: string;
      key: string;
      body_hash: string;
      record: string;
      record_id: string;
      tag: string;
      created_at: Generated<Date>;
    };
  }
}

const requests = defineTable(
  'crm_idempotency',
  {
    organization_id: { ...bigintColumn, primary: true },
    caller: { ...textColumn, primary: true },
    path: { ...textColumn, primary: true },
    key: { ...textColumn, primary: true },
    body_hash: textColumn,
    record: textColumn,
    record_id: bigintColumn,
    tag: textColumn,
    created_at: now,
  },
  {
    indexes: [{ name: 'crm_idempotency_created_at', properties: ['created_at'] }],
    resourcePaths: ['path'],
    people: { called: 'stored responses', columns: ['record'], rows: 'go' },
  },
);

/** Tables with the stored responses to requests with an `Idempotency-Key`. */
export const idempotencyTables = [requests];

/** Retention of stored responses, in hours. */
export const retentionHours = 24;

/** A request's `Idempotency-Key` and the SHA-256 hash of its body, in hexadecimal. */
interface Idempotency {
  readonly key: string;
  readonly bodyHash: string;
}

/** A plan that runs at most once per idempotency key, or every time without a key. */
export interface IdempotentPlan extends OperationPlan {
  readonly idempotency: Idempotency | undefined;
}

/** Parses a request's `Idempotency-Key`. @throws HttpError 400 if it is malformed */
export function idempotencyOf({ headers, bytes }: OperationRequest): Idempotency | undefined {
  const key = headers['idempotency-key'];
  if (key === undefined) return undefined;
  if (!/^[\x21-\x7e]{1,255}$/.test(key)) {
    throw errors.malformedHeader('Idempotency-Key', 'must be 1 to 255 visible ASCII characters');
  }
  return { key, bodyHash: hash('sha256', bytes(), 'hex') };
}

const caller = ({ caller: { principal } }: OperationPlan) => `${principal.kind}:${principal.actor}`;
const key = ({ idempotency }: IdempotentPlan) => idempotency?.key ?? null;
const bodyHash = ({ idempotency }: IdempotentPlan) => idempotency?.bodyHash ?? null;

/** A write that runs at most once per key. */
interface IdempotentWrite {
  /** The path that keys are scoped to, without the API prefix. */
  readonly path: string;
  /**
   * Returns the common table expressions that perform the write. `source` has one row, or none if nothing
   * must be written.
   */
  readonly write: (source: string) => string;
  /**
   * SELECT statement that returns the response as "record", its versions as "tag" and the record's ID as
   * "record_id".
   */
  readonly result: string;
  /** The projection's mark, appended to the versions in the entity tag. */
  readonly mark: string;
}

/**
 * Returns a statement that writes once per key and stores the response in the same transaction. It returns
 * the response, its entity tag, the record's ID and, for a previously stored response, the hash of the first
 * request's body. It returns a row of nulls while the first request is still running.
 */
export function idempotentStatement<P extends IdempotentPlan>(
  placeholder: Placeholder<P>,
  { path, write, result, mark }: IdempotentWrite,
): string {
  const organization = organizationOf(placeholder);
  const scope = [`${placeholder(caller)}::text`, literal(path), `${placeholder(key)}::text`];
  const lock = placeholder((plan) =>
    JSON.stringify(['idempotency', plan.organization, caller(plan), path, key(plan)]),
  );
  const tag = `"tag" || ${literal(mark)}`;
  const keyConditions = ['caller', 'path', 'key'].map((column, index) => `k."${column}" = ${scope[index]}`);
  const expressions = [
    // Does not wait for the lock, so that a concurrent request receives 409 immediately. The lock is released
    // with the statement's transaction.
    `_lock as materialized (select pg_try_advisory_xact_lock(hashtextextended(${lock}::text, 0)) as "free")`,
    `_earlier as materialized (select k."record", k."tag", k."record_id"::text, k."body_hash" from "crm_idempotency" k where k."organization_id" = ${organization} and ${keyConditions.join(' and ')})`,
    '_first as materialized (select from _lock where "free" and not exists (select from _earlier))',
    write('_first'),
    `_result as (${result})`,
    `_stored as (insert into "crm_idempotency" ("organization_id", "caller", "path", "key", "body_hash", "record", "record_id", "tag") select ${organization}, ${scope.join(', ')}, ${placeholder(bodyHash)}::text, "record", "record_id"::bigint, ${tag} from _result)`,
  ];
  const results = [
    `select "record", ${tag}, "record_id", null from _result`,
    'select * from _earlier',
    'select null, null, null, null from _lock where not "free" and not exists (select from _earlier)',
  ];
  return `with ${expressions.join(', ')} ${results.join(' union all ')}`;
}

/**
 * Returns the response to a plan that {@link idempotentStatement} executed, either in this request or in an
 * earlier one.
 * @throws HttpError 409 while the first request is still running; 422 if its body was different
 */
export function idempotentResponse({ idempotency }: IdempotentPlan, [row = []]: TextRows): OperationResponse {
  const [record, tag, , storedHash] = row;
  if (record === null || record === undefined) throw errors.stillRunning();
  // A batch does not have an entity tag.
  const headers: Record<string, string> = tag === '' ? {} : { etag: quotedTag(String(tag)) };
  if (storedHash === null) return { body: record, headers };
  if (storedHash !== idempotency?.bodyHash) throw errors.keyReused();
  return { body: record, headers: { ...headers, 'idempotency-replayed': 'true' } };
}

/**
 * Returns whether a statement failed because another request with the same key committed after this statement
 * started. Nothing was written, and a retry will find the stored response.
 */
export const lostRace = (cause: unknown): boolean => violatedConstraint(cause) === 'crm_idempotency_pkey';
