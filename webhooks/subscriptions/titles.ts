import type { Resource } from '../../engine/compile/index.ts';
import { recordLabel } from '../../engine/definition/index.ts';
import { type Language, ownWords, type Text } from '../../plugins/admin-ui/shell/index.ts';
import { subscriptionsTexts } from './texts/index.ts';

/** The change that an event is about, or a test event. */
export interface EventSubject {
  readonly action: string;
  /** The resource, or an empty string for a test event. */
  readonly object: string;
  readonly id: string | null;
  readonly version: string | null;
}

/** The events of a delivery: the first ones, and the number of all events if it is a batch. */
interface DeliverySubject {
  readonly count?: number;
  readonly events: readonly EventSubject[];
}

/** Returns SQL for the {@link EventSubject} of a delivery as JSON. @param row alias of the delivery */
export const eventSubject = (row: string): string =>
  `json_build_object('action', ${row}.action, 'object', ${row}.object, 'id', ${row}.object_id::text, 'version', ${row}.version::text)`;

type T = ReturnType<typeof subscriptionsTexts>;
type ChangeTitle = (t: T, values: { readonly record: string; readonly version: string }) => Text;

/** The titles of events, by the action of the change. */
const changeTitles: Readonly<Record<string, ChangeTitle>> = {
  create: (t, values) => t('recordCreated', values),
  update: (t, values) => t('recordUpdated', values),
  delete: (t, values) => t('recordDeleted', values),
  trash: (t, values) => t('recordTrashed', values),
  restore: (t, values) => t('recordRestored', values),
  purge: (t, values) => t('recordPurged', values),
};

/** Returns the title of an event, for example "Invoice 97 created (version 1)". */
export function eventTitleIn(
  resources: readonly Resource[],
  { action, object, id, version }: EventSubject,
  language: Language,
): Text {
  const t = subscriptionsTexts(language);
  if (object === '') return t('testEvent');
  const resource = resources.find(({ name }) => name === object);
  const record = `${resource === undefined ? object : recordLabel(resource.definition)} ${id ?? ''}`;
  const title = Object.hasOwn(changeTitles, action) ? changeTitles[action] : undefined;
  return title?.(t, { record, version: version ?? '' }) ?? ownWords(`${action} ${record}`);
}

/** Returns the title of a delivery. @param subject a {@link DeliverySubject} as JSON */
export function deliveryTitleIn(resources: readonly Resource[], subject: string, language: Language): Text {
  const t = subscriptionsTexts(language);
  const { count, events } = JSON.parse(subject) as DeliverySubject;
  const titles = events.map((event) => eventTitleIn(resources, event, language));
  if (count === undefined) return titles[0] ?? t('testEvent');
  const batch = t('batchOf', { count });
  if (titles.length === 0) return batch;
  const list = [...titles, ...(count > titles.length ? ['…'] : [])].join(', ');
  return t('batchWith', { batch, events: list });
}
