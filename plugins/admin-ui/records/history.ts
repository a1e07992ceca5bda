import type { Resource } from '../../../engine/compile/index.ts';
import type { RecordPage } from '../shell/index.ts';
import { type Calls, type DataRecord, excerptLengths, nextCursor, type Response } from './calls.ts';
import { writable } from './inputs.ts';
import { cut, humanize, isCut, textOf } from './values.ts';

/** A change of a record, as the API has it. */
export interface Change {
  readonly position: string;
  readonly at: string;
  readonly actor: { readonly kind: string; readonly name: string | null };
  readonly action: 'create' | 'update' | 'delete';
  readonly changed: readonly string[];
  readonly before: DataRecord | null;
  readonly after: DataRecord | null;
}

/** Actors that are not people or keys. */
const unnamed: Readonly<Record<string, string>> = { command: 'the command line', partner: 'a partner' };
const actions = { create: 'Created', update: 'Changed', delete: 'Deleted' } as const;

/** Characters of a value that a history shows. */
const changeLength = excerptLengths.many;

/** Before or after a change. */
export const sides = ['before', 'after'] as const;
export type Side = (typeof sides)[number];

export const changesIn = ({ body }: Response): readonly Change[] => body.data as readonly Change[];

/** One change of a record with its whole texts. @throws HttpError 404 if there is none at the position */
export async function changeAt(
  calls: Calls,
  resource: Resource,
  id: string,
  position: string,
): Promise<Change> {
  const { body } = await calls.excerpt(resource, 'change', { id, query: { change: position } });
  return body as unknown as Change;
}

/** What a change can be undone to: what the fields that may be written were before it; undefined where that is not known. */
export function undoValues(resource: Resource, { action, changed, before }: Change): DataRecord | undefined {
  if (action === 'create' || before === null) return undefined;
  const names = writable(resource)
    .map(({ name }) => name)
    .filter((name) => (action === 'delete' || changed.includes(name)) && Object.hasOwn(before, name));
  return names.length === 0 ? undefined : Object.fromEntries(names.map((name) => [name, before[name]]));
}

/** Addresses of a record's history. */
interface HistoryAddresses {
  /** Undoes a change; undefined if the member is not allowed to. */
  readonly undo: ((change: Change) => string | undefined) | undefined;
  /** Older changes, by a cursor. */
  readonly older: (cursor: string) => string;
  /** The whole value of a field before or after a change. */
  readonly value: (field: string, change: Change, side: Side) => string;
}

/** The history of a record, to be shown next to it. */
export const historyEntries = (
  resource: Resource,
  response: Response,
  addresses: HistoryAddresses,
): NonNullable<RecordPage['changes']> => {
  const cursor = nextCursor(response);
  return {
    title: 'History',
    all: changesIn(response).map((change) => {
      const href = undoValues(resource, change) === undefined ? undefined : addresses.undo?.(change);
      return {
        at: change.at,
        text: `${actions[change.action]} by ${change.actor.name ?? unnamed[change.actor.kind] ?? 'somebody'}`,
        fields: change.action === 'update' ? fieldsOf(resource, change, addresses) : [],
        ...(href !== undefined && {
          link: {
            label: change.action === 'delete' ? 'Restore' : 'Undo',
            name: `${change.action === 'delete' ? 'Restore what was deleted' : 'Undo the change'} of ${change.at}`,
            href,
          },
        }),
      };
    }),
    older: cursor === undefined ? undefined : addresses.older(cursor),
  };
};

/** What a change did to fields, without those that every change writes. */
const fieldsOf = ({ definition }: Resource, change: Change, { value }: HistoryAddresses) =>
  change.changed
    .filter((name) => {
      const set = definition.fields.find((field) => field.name === name)?.set;
      return set !== 'updated' && set !== 'editor';
    })
    .map((name) => {
      const label = humanize(name);
      const texts = { before: textOf(change.before?.[name]), after: textOf(change.after?.[name]) };
      const whole = sides
        .filter((side) => isCut(texts[side], changeLength))
        .map((side) => ({
          label: `Show all of it ${side}`,
          name: `Show all of ${label} ${side} the change of ${change.at}`,
          href: value(name, change, side),
        }));
      return {
        label,
        before: cut(texts.before, changeLength),
        after: cut(texts.after, changeLength),
        whole,
      };
    });
