import { randomUUID } from 'node:crypto';
import type { ResourceView } from '../../../engine/compile/index.ts';
import type { Body } from '../../../engine/records/index.ts';
import { type Form, field } from '../shell/index.ts';
import type { Calls, DataRecord } from './calls.ts';
import { unlessMissing } from './unless.ts';
import { textOf } from './values.ts';

/** Returns the key that identifies a form, so that submitting it twice has one effect. A form without a key gets a random one. */
export const formKey = (form: Form): string =>
  field(form, 'key')
    .slice(0, 100)
    .replace(/[^\w-]/g, '') || randomUUID();

/** Maximum number of attempts per key that return a deleted record before a random key is used. */
const maxTries = 20;

/**
 * Creates a record only once per idempotency key, even if a form is submitted repeatedly. If the record has
 * since been deleted, creates a new one, because returning a deleted record would be misleading.
 * @param sequenceValues see {@link Calls.create}
 * @throws HttpError in the same cases as the API
 */
export async function createOnce(
  calls: Calls,
  resource: ResourceView,
  key: string,
  body: Body,
  sequenceValues?: Parameters<Calls['create']>[3],
): Promise<DataRecord> {
  let current = key;
  for (let tries = 1; ; tries++) {
    const created = await unlessMissing(() => calls.create(resource, current, body, sequenceValues));
    // If the caller's rights are limited, an earlier record that the caller can no longer read is missing.
    const id = created === undefined ? `missing-${tries}` : textOf(created.record.id);
    if (created !== undefined) {
      const { record, isReplayed } = created;
      if (!isReplayed || !calls.allows(resource, 'read') || (await exists(calls, resource, id)))
        return record;
    }
    // Concurrent requests derive the same key, so they create only one record.
    current = tries < maxTries ? `${key}-${id}` : randomUUID();
  }
}

const exists = async (calls: Calls, resource: ResourceView, id: string): Promise<boolean> =>
  (await unlessMissing(() => calls.read(resource, id))) !== undefined;
