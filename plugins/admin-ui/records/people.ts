import type { ResourceView } from '../../../engine/compile/index.ts';
import { refersToUser } from '../../../engine/fields/index.ts';
import type { ChangeValues } from '../../../engine/records/index.ts';
import { personLines, type VisiblePerson } from '../../access/identity/index.ts';
import type { DataRecord } from './calls.ts';
import { textOf } from './values.ts';

/** The people on a page, by ID. */
export type People = ReadonlyMap<string, VisiblePerson>;

/** Returns the IDs of the users in records, for example of their creators. */
export function userIds({ definition }: ResourceView, records: readonly (DataRecord | null)[]): string[] {
  const names = definition.fields.filter(refersToUser).map(({ name }) => name);
  return records.flatMap((record) => names.map((name) => textOf(record?.[name])).filter((id) => id !== ''));
}

/** Returns the IDs of the users who made changes and of the users in the changed records. */
export const userIdsOfChanges = (resource: ResourceView, changes: readonly ChangeValues[]): string[] =>
  changes.flatMap(({ actor, before, after }) => [
    ...(actor.kind === 'user' && actor.id !== null ? [textOf(actor.id)] : []),
    ...userIds(resource, [before, after]),
  ]);

/** Returns a user's name with the email address, if the member can see it, or the ID if the user was deleted. */
export function personValue(people: People, id: string) {
  const person = people.get(id);
  return person === undefined ? { text: `ID ${id}` } : personLines(person);
}
