import type { ResourceView } from '../../../engine/compile/index.ts';
import { type Field, fieldLabel, refersToUser } from '../../../engine/fields/index.ts';
import {
  approvalIn,
  type ChangeValues,
  hidesCustomValues,
  hidesReferences,
  removalActions,
} from '../../../engine/records/index.ts';
import { personDetail, personLabel } from '../../access/identity/index.ts';
import type { Language, RecordPage, Text, TextIn } from '../shell/index.ts';
import { type Calls, type DataRecord, excerptLengths } from './calls.ts';
import { writable } from './inputs.ts';
import { type People, personValue } from './people.ts';
import { recordsTexts } from './texts/index.ts';
import { isTruncated, textOf, truncate, valueText } from './values.ts';

const { later } = recordsTexts;

/** Names of actors that are neither users nor keys. */
const fallbackNames: Readonly<Record<string, TextIn>> = {
  command: later('byCommand'),
  partner: later('byPartner'),
};
/** The texts up to the actor's name. */
const actions = {
  create: later('createdBy'),
  update: later('changedBy'),
  delete: later('deletedBy'),
  trash: later('trashedBy'),
  restore: later('restoredBy'),
  purge: later('purgedBy'),
} as const;
const icons = {
  create: 'plus',
  update: 'pencil',
  delete: 'trash-2',
  trash: 'trash-2',
  restore: 'plus',
  purge: 'trash-2',
} as const;

/** Returns whether a change removed the record, either permanently or by moving it to the trash. */
export const isRemoval = ({ action }: Pick<ChangeValues, 'action'>): boolean =>
  removalActions.includes(action);

/** Maximum number of characters shown for a value in a history. */
const changeLength = excerptLengths.many;

/** The sides of a change: the value before it and the value after it. */
export const sides = ['before', 'after'] as const;
export type Side = (typeof sides)[number];

/**
 * Returns the previous values of the writable fields, or undefined if they are not stored or the member's grants are
 * limited, so that the change would be undone only in part. A record in the trash keeps its values, so they are empty.
 */
export function undoValues(resource: ResourceView, change: ChangeValues): DataRecord | undefined {
  const { action, changed, before } = change;
  if (action === 'trash') return {};
  if (action === 'create' || before === null || !canUndo(resource, change)) return undefined;
  const names = writable(resource)
    .map(({ name }) => name)
    .filter((name) => (isRemoval(change) || changed.includes(name)) && Object.hasOwn(before, name));
  return names.length === 0 ? undefined : Object.fromEntries(names.map((name) => [name, before[name]]));
}

/** Returns whether the member can write every value that a change affected. */
function canUndo(resource: ResourceView, { action, changed }: ChangeValues): boolean {
  const { stored, rows, resources } = resource.context;
  const writableNames = new Set(writable(resource).map(({ name }) => name));
  const lockedNames = [
    // Custom fields are fields of the view.
    ...resource.definition.fields.filter(({ readOnly, custom }) => readOnly && custom !== undefined),
    ...stored.fields
      .filter(({ readOnly, aliasOf }) => !readOnly && aliasOf === undefined)
      .filter((field) =>
        field.type.custom === true
          ? hidesCustomValues(field, resource.context)
          : !writableNames.has(field.name) || hidesReferences(field, resources),
      ),
  ].map(({ name }) => name);
  if (action === 'update') return !lockedNames.some((name) => changed.includes(name));
  // If the member's scopes limit the history, the record might not have been deleted.
  return lockedNames.length === 0 && rows?.read === undefined;
}

/** The language and the URLs of a record's history. */
interface HistoryOptions {
  readonly language: Language;
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
  resource: ResourceView,
  { items, next }: Awaited<ReturnType<Calls['history']>>,
  people: People,
  options: HistoryOptions,
): NonNullable<RecordPage['changes']> => ({
  title: recordsTexts(options.language)('history'),
  all: items.map((change) => {
    const { language } = options;
    const t = recordsTexts(language);
    const href = undoValues(resource, change) === undefined ? undefined : options.undo?.(change);
    return {
      at: change.at,
      icon: icons[change.action],
      text: actions[change.action](language),
      actor: actorOf(change, people, language),
      fields: change.action === 'update' ? fieldsOf(resource, change, people, options) : [],
      ...(href !== undefined && {
        link: {
          label: isRemoval(change) ? t('restoreLabel') : t('undoLabel'),
          name: isRemoval(change) ? t('restoreAt', { time: change.at }) : t('undoAt', { time: change.at }),
          href,
        },
      }),
    };
  }),
  older: next === undefined ? undefined : options.older(next),
});

/** Returns the actor's current name or, if the actor is not a user, the name at the time of the change. */
function actorOf({ actor }: ChangeValues, people: People, language: Language) {
  const person = actor.kind === 'user' && actor.id !== null ? people.get(textOf(actor.id)) : undefined;
  return person === undefined
    ? { text: actor.name ?? (fallbackNames[actor.kind] ?? later('bySomeone'))(language) }
    : { text: `${personLabel(person)}${approvalIn(actor.name)}`, title: personDetail(person) };
}

/** Returns a value as text. A user is represented by their name. */
const changedText = (field: Field, value: unknown, people: People): string => {
  const text = valueText(field, value);
  return refersToUser(field) && text !== '' ? personValue(people, text).text : text;
};

/** Labels of the links to full values. */
const wholeLabels = { before: later('showValueBefore'), after: later('showValueAfter') } as const;

/** Returns the accessible name of the link to a full value. */
function wholeName(side: Side, field: string, { at: time }: ChangeValues, language: Language): Text {
  const t = recordsTexts(language);
  return side === 'before' ? t('showValueBeforeAt', { field, time }) : t('showValueAfterAt', { field, time });
}

/** Returns the changed fields, except fields that every write changes. */
const fieldsOf = (
  { definition }: ResourceView,
  change: ChangeValues,
  people: People,
  { value, language }: HistoryOptions,
) =>
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
          label: wholeLabels[side](language),
          name: wholeName(side, label, change, language),
          href: value(name, change, side),
        }));
      return {
        label,
        before: truncate(texts.before, changeLength),
        after: truncate(texts.after, changeLength),
        whole,
      };
    });
