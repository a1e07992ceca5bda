import type { Resource } from '../../../engine/compile/index.ts';
import type { RecordPage } from '../shell/index.ts';
import { type Calls, type DataRecord, nextCursor, type Response } from './calls.ts';
import { writable } from './inputs.ts';
import { humanize, textOf } from './values.ts';

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

/** Pages of the history that a change is looked for on. */
const maxPages = 50;

export const changesIn = ({ body }: Response): readonly Change[] => body.data as readonly Change[];

/** One change of a record by its position; undefined if there is none. */
export async function changeAt(
  calls: Calls,
  resource: Resource,
  id: string,
  position: string,
): Promise<Change | undefined> {
  let cursor: string | undefined;
  for (let page = 0; page < maxPages; page++) {
    const response = await calls.call(resource, 'history', {
      id,
      query: cursor === undefined ? {} : { cursor },
    });
    const found = changesIn(response).find((change) => change.position === position);
    cursor = nextCursor(response);
    if (found !== undefined || cursor === undefined) return found;
  }
  return undefined;
}

/** What a change can be undone to: what the fields that may be written were before it; undefined where that is not known. */
export function undoValues(resource: Resource, { action, changed, before }: Change): DataRecord | undefined {
  if (action === 'create' || before === null) return undefined;
  const names = writable(resource)
    .map(({ name }) => name)
    .filter((name) => (action === 'delete' || changed.includes(name)) && Object.hasOwn(before, name));
  return names.length === 0 ? undefined : Object.fromEntries(names.map((name) => [name, before[name]]));
}

/** The history of a record beside it. @param undo the address that undoes a change, by its position; undefined where the member may not */
export const historyEntries = (
  resource: Resource,
  response: Response,
  undo: ((change: Change) => string | undefined) | undefined,
  older: ((cursor: string) => string) | undefined,
): NonNullable<RecordPage['changes']> => {
  const cursor = nextCursor(response);
  return {
    title: 'History',
    all: changesIn(response).map((change) => {
      const href = undoValues(resource, change) === undefined ? undefined : undo?.(change);
      return {
        at: change.at,
        text: `${actions[change.action]} by ${change.actor.name ?? unnamed[change.actor.kind] ?? 'somebody'}`,
        fields: change.action === 'update' ? fieldsOf(resource, change) : [],
        ...(href !== undefined && {
          link: {
            label: change.action === 'delete' ? 'Restore' : 'Undo',
            name: `${change.action === 'delete' ? 'Restore what was deleted' : 'Undo the change'} of ${change.at}`,
            href,
          },
        }),
      };
    }),
    older: cursor === undefined ? undefined : older?.(cursor),
  };
};

/** What a change did to fields, without those that every change writes. */
const fieldsOf = ({ definition }: Resource, { changed, before, after }: Change) =>
  changed
    .filter((name) => {
      const set = definition.fields.find((field) => field.name === name)?.set;
      return set !== 'updated' && set !== 'editor';
    })
    .map((name) => ({ label: humanize(name), before: textOf(before?.[name]), after: textOf(after?.[name]) }));
