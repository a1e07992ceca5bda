import { randomUUID } from 'node:crypto';
import type { Resource } from '../../../engine/compile/index.ts';
import { HttpError } from '../../../engine/errors.ts';
import type { Body } from '../../../engine/records/index.ts';
import type { Calls, DataRecord } from './calls.ts';
import { textOf } from './values.ts';

/** Records that were made by one key and deleted since, before a further one is made whatever else there is. */
const mostTries = 20;

/**
 * Creates a record once for each key, however often a form is sent: the API keeps its response. A record that was deleted
 * since it was made is created again, so that nobody is told of one that is not there.
 * @throws HttpError as the API responds
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
    // Those who send it at once come to the same key, and make one record.
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
