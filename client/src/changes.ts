// The numbers in changes, as the history, the change feed and events have them.
import type { ResourceInfo } from './client.ts';
import type { Kinds } from './json.ts';

/** The numbers in a change of a record. */
export const kindsOfChange = (record: Kinds): Kinds => ({
  actor: { id: 'int64' },
  id: 'int64',
  version: 'int64',
  before: record,
  after: record,
  record,
});

/** The numbers in a change, by its resource. */
export const changeKinds =
  (resources: Readonly<Record<string, ResourceInfo>>) =>
  ({ resource }: Readonly<Record<string, unknown>>): Kinds => {
    const name = String(resource);
    return kindsOfChange((Object.hasOwn(resources, name) ? resources[name]?.numbers : undefined) ?? {});
  };
