import { randomUUID } from 'node:crypto';
import type { Resource } from '../../../engine/compile/index.ts';
import { HttpError } from '../../../engine/errors.ts';
import type { Body } from '../../../engine/records/index.ts';
import type { Calls, DataRecord } from './calls.ts';
import { textOf } from './values.ts';

/** Maximum number of deleted records per key before another record is created in any case. */
const mostTries = 20;

/**
 * Creates a record once per key, however often a form is submitted, by using the API's idempotency keys. If that
 * record has been deleted since, creates it again, because a deleted record would be a misleading result.
 * @throws HttpError as the API does
 */
export async function createOnce(
  calls: Calls,
  resource: Resource,
  key: string,
  body: Body,
): Promise<DataRecord> {
  let current = key;
  for (let tries = 1; ; tries++) {
    const made = await calls.call(resource, 'create', { body, headers: { 'idempotency-key': current } });
    const id = textOf(made.body.id);
    const isNew = made.headers['idempotency-replayed'] === undefined;
    if (isNew || !calls.may(resource, 'read') || (await isThere(calls, resource, id))) return made.body;
    // Concurrent requests derive the same key, so they create one record.
    current = tries < mostTries ? `${key}-${id}` : randomUUID();
  }
}

async function isThere(calls: Calls, resource: Resource, id: string): Promise<boolean> {
  try {
    await calls.excerpt(resource, 'read', { id });
    return true;
  } catch (error) {
    if (error instanceof HttpError && error.status === 404) return false;
    throw error;
  }
}
