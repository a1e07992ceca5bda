import { randomUUID } from 'node:crypto';
import type { Resource } from '../../../engine/compile/index.ts';
import { HttpError } from '../../../engine/errors.ts';
import type { Body } from '../../../engine/records/index.ts';
import type { Calls, DataRecord } from './calls.ts';
import { textOf } from './values.ts';

/** Maximum number of attempts per key that return a deleted record before a random key is used. */
const maxTries = 20;

/**
 * Creates a record only once per idempotency key, even if a form is submitted repeatedly. If the record has
 * since been deleted, creates a new one, because returning a deleted record would be misleading.
 * @throws HttpError in the same cases as the API
 */
export async function createOnce(
  calls: Calls,
  resource: Resource,
  key: string,
  body: Body,
): Promise<DataRecord> {
  let current = key;
  for (let tries = 1; ; tries++) {
    const { record, isReplayed } = await calls.create(resource, current, body);
    const id = textOf(record.id);
    if (!isReplayed || !calls.allows(resource, 'read') || (await exists(calls, resource, id))) return record;
    // Concurrent requests derive the same key, so they create only one record.
    current = tries < maxTries ? `${key}-${id}` : randomUUID();
  }
}

async function exists(calls: Calls, resource: Resource, id: string): Promise<boolean> {
  try {
    await calls.read(resource, id);
    return true;
  } catch (error) {
    if (error instanceof HttpError && error.status === 404) return false;
    throw error;
  }
}
