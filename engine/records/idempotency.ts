import { hash } from 'node:crypto';
import type { Generated } from 'kysely';
import { type TextRows, violatedConstraint } from '../database/index.ts';
import { errors } from '../errors.ts';
import {
  cell,
  literal,
  type Placeholder,
  prepare,
  type Row,
  rowDecoder,
  rowKinds,
  type Statement,
} from '../sql/index.ts';
import { bigintColumn, defineTable, now, textColumn } from '../tables/index.ts';
import type { Idempotency, OperationPlan } from './operation.ts';
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
    personalData: { label: 'stored responses', columns: ['record'], erasure: 'delete' },
  },
);

/** Tables that store responses to requests with an `Idempotency-Key`. */
export const idempotencyTables = [requests];

/** Retention period for stored responses, in hours. */
export const retentionHours = 24;

/** A plan that runs at most once per idempotency key, or on every request without a key. */
export interface IdempotentPlan extends OperationPlan {
  readonly idempotency: Idempotency | undefined;
}

/** A plan whose request can contain an idempotency key. */
export interface KeyedPlan extends OperationPlan {
  readonly idempotency?: Idempotency | undefined;
}

/** Combines an idempotency key with the hash of the request's body. */
export const idempotencyOf = (key: string, body: string | Buffer): Idempotency => ({
  key,
  bodyHash: hash('sha256', body, 'hex'),
});

const caller = ({ caller: { principal } }: OperationPlan) => `${principal.kind}:${principal.actor}`;
const key = ({ idempotency }: KeyedPlan) => idempotency?.key ?? null;
const bodyHash = ({ idempotency }: IdempotentPlan) => idempotency?.bodyHash ?? null;

/** Returns the text that identifies a plan's key in advisory locks. */
const lockText = (plan: KeyedPlan, path: string): string =>
  JSON.stringify(['idempotency', plan.organization, caller(plan), path, key(plan)]);

/** A write that runs at most once per key. */
interface IdempotentWrite {
  /** The path that keys are scoped to, without the API prefix. */
  readonly path: string;
  /**
   * Returns the common table expressions that perform the write. `source` has one row, or none if the write
   * must be skipped.
   */
  readonly write: (source: string) => string;
  /**
   * SELECT statement that returns the response as "record", its versions as "tag" and the record's ID as
   * "record_id".
   */
  readonly result: string;
  /** The projection's mark, which the entity tag contains after the versions. */
  readonly mark: string;
}

/** Columns of a response. A batch has an empty entity tag. */
const responseColumns = { json: cell.encoded, tag: cell.text, id: cell.text };

/**
 * Rows returned by an idempotent write: its response, the stored one, or neither while the first request
 * runs.
 */
const kinds = rowKinds({
  written: responseColumns,
  stored: { ...responseColumns, bodyHash: cell.text },
  running: {},
});

/**
 * Returns a statement that writes once per key and stores the response in the same transaction. The statement
 * returns a row of one of the {@link kinds}.
 */
export function idempotentStatement<P extends IdempotentPlan>(
  placeholder: Placeholder<P>,
  { path, write, result, mark }: IdempotentWrite,
): string {
  const organization = organizationOf(placeholder);
  const scope = [`${placeholder(caller)}::text`, literal(path), `${placeholder(key)}::text`];
  const lock = placeholder((plan) => lockText(plan, path));
  const tag = `"tag" || ${literal(mark)}`;
  const expressions = [
    // Does not wait for the lock, so that a concurrent request receives 409 immediately. The lock is released
    // when the statement's transaction ends.
    `_lock as materialized (select pg_try_advisory_xact_lock(hashtextextended(${lock}::text, 0)) as "free")`,
    `_earlier as materialized (select k."record", k."tag", k."record_id"::text, k."body_hash" from "crm_idempotency" k where k."organization_id" = ${organization} and ${keyConditions(scope)})`,
    '_first as materialized (select from _lock where "free" and not exists (select from _earlier))',
    write('_first'),
    `_result as (${result})`,
    `_stored as (insert into "crm_idempotency" ("organization_id", "caller", "path", "key", "body_hash", "record", "record_id", "tag") select ${organization}, ${scope.join(', ')}, ${placeholder(bodyHash)}::text, "record", "record_id"::bigint, ${tag} from _result)`,
  ];
  const results = [
    `select ${kinds.select('written', `"record", ${tag}, "record_id"`)} from _result`,
    `select ${kinds.select('stored', '*')} from _earlier`,
    `select ${kinds.select('running')} from _lock where not "free" and not exists (select from _earlier)`,
  ];
  return `with ${expressions.join(', ')} ${results.join(' union all ')}`;
}

/** Returns the statement that replaces the response stored for a plan's key. @param path see {@link IdempotentWrite} */
export const storeResponse = (plan: KeyedPlan, path: string, json: string): Statement =>
  prepare<KeyedPlan>('', 'write', ($) => {
    const conditions = keyConditions([`${$(caller)}::text`, literal(path), `${$(key)}::text`]);
    return `update "crm_idempotency" k set "record" = ${$(() => json)}::text where k."organization_id" = ${organizationOf($)} and ${conditions}`;
  }).bind(plan);

/** Statements for a write that consists of several statements in one transaction and runs at most once per key. */
export interface KeyStatements {
  /** Tries to lock the plan's key until the transaction ends. */
  readonly lock: Statement;
  /** Selects the stored response. */
  readonly find: Statement;
  /** Returns the statement that stores the response. */
  readonly store: (json: string) => Statement;
}

const decodeLock = rowDecoder({ isFree: cell.flag });
const decodeStored = rowDecoder({ json: cell.text, bodyHash: cell.text });

/** Returns the statements for a plan with a key. @param path the path that keys are scoped to, without the API prefix */
export function keyStatements(plan: IdempotentPlan, path: string): KeyStatements {
  const scopeOf = ($: Placeholder<IdempotentPlan>) => [
    `${$(caller)}::text`,
    `${$(() => path)}::text`,
    `${$(key)}::text`,
  ];
  const prepareKey = (write: ($: Placeholder<IdempotentPlan>) => string): Statement =>
    prepare<IdempotentPlan>('', 'write', write).bind(plan);
  return {
    lock: prepareKey(
      ($) =>
        `select pg_try_advisory_xact_lock(hashtextextended(${$((own) => lockText(own, path))}::text, 0))::text`,
    ),
    find: prepareKey(
      ($) =>
        `select k."record", k."body_hash" from "crm_idempotency" k where k."organization_id" = ${organizationOf($)} and ${keyConditions(scopeOf($))}`,
    ),
    store: (json) =>
      prepareKey(
        ($) =>
          `insert into "crm_idempotency" ("organization_id", "caller", "path", "key", "body_hash", "record", "record_id", "tag") values (${organizationOf($)}, ${scopeOf($).join(', ')}, ${$(bodyHash)}::text, ${$(() => json)}::text, 0, '')`,
      ),
  };
}

/**
 * Locks a key, and returns the stored response to an earlier request, if any.
 * @param run runs a statement in the transaction
 * @throws HttpError 409 while the first request is still running; 422 if the key was used with another body
 */
export async function answerStored(
  run: (statement: Statement) => Promise<TextRows>,
  { lock, find }: KeyStatements,
  { idempotency }: IdempotentPlan,
): Promise<string | undefined> {
  const [locked = []] = await run(lock);
  if (!decodeLock(locked).isFree) throw errors.stillRunning();
  const [row] = await run(find);
  if (row === undefined) return undefined;
  const { json, bodyHash: stored } = decodeStored(row);
  if (stored !== idempotency?.bodyHash) throw errors.keyReused();
  return json;
}

/** Returns an SQL condition that is true if a response is stored for a plan's key. @param path the path that keys are scoped to */
export function isStoredSql(placeholder: Placeholder<KeyedPlan>, path: string): string {
  const conditions = keyConditions([
    `${placeholder(caller)}::text`,
    literal(path),
    `${placeholder(key)}::text`,
  ]);
  return `exists (select from "crm_idempotency" k where k."organization_id" = ${organizationOf(placeholder)} and ${conditions})`;
}

/** Returns the SQL condition for a key's stored response. @param scope SQL expressions for the caller, path and key */
const keyConditions = (scope: readonly string[]): string =>
  ['caller', 'path', 'key'].map((column, index) => `k."${column}" = ${scope[index]}`).join(' and ');

/** The response to a write that runs once per key. */
export interface IdempotentResult extends Row<typeof responseColumns> {
  /** Whether it is the stored response to an earlier request. */
  readonly isReplayed: boolean;
}

/**
 * Returns the result of a plan that an {@link idempotentStatement} executed for this or an earlier request.
 * @throws HttpError 409 while the first request is still running; 422 if the key was used with another body
 */
export function idempotentResult({ idempotency }: IdempotentPlan, [row]: TextRows): IdempotentResult {
  // There is no row if a trigger added by the operator skipped the write.
  const result = row === undefined ? ({ kind: 'running' } as const) : kinds.decode(row);
  if (result.kind === 'running') throw errors.stillRunning();
  if (result.kind === 'stored' && result.bodyHash !== idempotency?.bodyHash) throw errors.keyReused();
  const { json, tag, id } = result;
  return { json, tag, id, isReplayed: result.kind === 'stored' };
}

/**
 * Returns whether a statement failed because another request with the same key committed after this statement
 * started. Nothing was written, and a retry will find the stored response.
 */
export const lostRace = (cause: unknown): boolean => violatedConstraint(cause) === 'crm_idempotency_pkey';
