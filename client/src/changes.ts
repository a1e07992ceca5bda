// Number types of the fields in changes, as returned by the history, the change feed and events.
import type { ResourceInfo } from './client.ts';
import type { Kinds } from './json.ts';

/** Returns the number types for a change. @param record number types for the record */
export const kindsOfChange = (record: Kinds): Kinds => ({
  actor: { id: 'int64' },
  id: 'int64',
  version: 'int64',
  before: record,
  after: record,
  previous: record,
  record,
});

/** Returns a function that maps a change to its number types, based on its resource. */
export const changeKinds =
  (resources: Readonly<Record<string, ResourceInfo>>) =>
  ({ resource }: Readonly<Record<string, unknown>>): Kinds => {
    const name = String(resource);
    return kindsOfChange((Object.hasOwn(resources, name) ? resources[name]?.numbers : undefined) ?? {});
  };
