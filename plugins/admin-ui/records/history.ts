import type { Resource } from '../../../engine/compile/index.ts';
import { type Field, refersToUser } from '../../../engine/fields/index.ts';
import type { ChangeValues } from '../../../engine/records/index.ts';
import { personDetail, personLabel } from '../../access/identity/index.ts';
import type { RecordPage } from '../shell/index.ts';
import { type Calls, type DataRecord, excerptLengths } from './calls.ts';
import { writable } from './inputs.ts';
import { type People, personValue } from './people.ts';
import { fieldLabel, isTruncated, textOf, truncate } from './values.ts';

/** Names of actors that are neither users nor keys. */
const fallbackNames: Readonly<Record<string, string>> = { command: 'the command line', partner: 'a partner' };
const actions = { create: 'Created', update: 'Changed', delete: 'Deleted' } as const;

/** Maximum number of characters shown for a value in a history. */
const changeLength = excerptLengths.many;

/** The sides of a change: the value before it and the value after it. */
export const sides = ['before', 'after'] as const;
export type Side = (typeof sides)[number];

/** Returns the previous values of the writable fields, or undefined if they are not stored. */
export function undoValues(
  resource: Resource,
  { action, changed, before }: ChangeValues,
): DataRecord | undefined {
  if (action === 'create' || before === null) return undefined;
  const names = writable(resource)
    .map(({ name }) => name)
    .filter((name) => (action === 'delete' || changed.includes(name)) && Object.hasOwn(before, name));
  return names.length === 0 ? undefined : Object.fromEntries(names.map((name) => [name, before[name]]));
}

/** URLs of a record's history. */
interface HistoryUrls {
  /**
   * Returns the URL for undoing a change, or undefined if this change cannot be undone. The property is undefined if
   * the member is not allowed to undo changes.
   */
  readonly undo: ((change: ChangeValues) => string | undefined) | undefined;
  /** Returns the URL of older changes, starting at a cursor. */
  readonly older: (cursor: string) => string;
  /** Returns the URL of a field's full value before or after a change. */
  readonly value: (field: string, change: ChangeValues, side: Side) => string;
}

/** Returns the history shown next to a record. @param people the users in the changes */
export const historyEntries = (
  resource: Resource,
  { items, next }: Awaited<ReturnType<Calls['history']>>,
  people: People,
  urls: HistoryUrls,
): NonNullable<RecordPage['changes']> => ({
  title: 'History',
  all: items.map((change) => {
    const href = undoValues(resource, change) === undefined ? undefined : urls.undo?.(change);
    return {
      at: change.at,
      text: `${actions[change.action]} by`,
      actor: actorOf(change, people),
      fields: change.action === 'update' ? fieldsOf(resource, change, people, urls) : [],
      ...(href !== undefined && {
        link: {
          label: change.action === 'delete' ? 'Restore' : 'Undo',
          name: `${change.action === 'delete' ? 'Restore the record deleted' : 'Undo the change made'} at ${change.at}`,
          href,
        },
      }),
    };
  }),
  older: next === undefined ? undefined : urls.older(next),
});

/** Returns the actor's current name or, if the actor is not a user, the name at the time of the change. */
function actorOf({ actor }: ChangeValues, people: People) {
  const person = actor.kind === 'user' && actor.id !== null ? people.get(textOf(actor.id)) : undefined;
  return person === undefined
    ? { text: actor.name ?? fallbackNames[actor.kind] ?? 'someone' }
    : { text: personLabel(person), title: personDetail(person) };
}

/** Returns a value as text. A user is represented by their name. */
const changedText = (field: Field, value: unknown, people: People): string => {
  const text = textOf(value);
  return refersToUser(field) && text !== '' ? personValue(people, text).text : text;
};

/** Returns the changed fields, except fields that every write changes. */
const fieldsOf = ({ definition }: Resource, change: ChangeValues, people: People, { value }: HistoryUrls) =>
  change.changed
    .flatMap((name) => definition.fields.filter((field) => field.name === name))
    .filter(({ set }) => set !== 'updated' && set !== 'editor')
    .map((field) => {
      const { name } = field;
      const label = fieldLabel(field);
      const texts = {
        before: changedText(field, change.before?.[name], people),
        after: changedText(field, change.after?.[name], people),
      };
      const whole = sides
        .filter((side) => isTruncated(texts[side], changeLength))
        .map((side) => ({
          label: `Show full value ${side}`,
          name: `Show full value of ${label} ${side} the change at ${change.at}`,
          href: value(name, change, side),
        }));
      return {
        label,
        before: truncate(texts.before, changeLength),
        after: truncate(texts.after, changeLength),
        whole,
      };
    });
