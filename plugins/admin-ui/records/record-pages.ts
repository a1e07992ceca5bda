import { resourceLabel } from '../../../engine/definition/index.ts';
import { errors, HttpError } from '../../../engine/errors.ts';
import { fieldLabel } from '../../../engine/fields/index.ts';
import type { ChangeValues } from '../../../engine/records/index.ts';
import { maxNoteLength } from '../../tenants/notes/index.ts';
import {
  type ConfirmPage,
  type Form,
  field,
  type Link,
  localeOf,
  messageIn,
  redirectDone,
  returnQuery,
  sendWholeValue,
  type Text,
  type ValueForm,
  wholeValueLink,
} from '../shell/index.ts';
import { actionLinks } from './action-pages.ts';
import { excerptLengths } from './calls.ts';
import { deletionText } from './delete-pages.ts';
import { readStored, suggestionsFor } from './form-state.ts';
import { historyEntries, isRemoval, type Side, sides } from './history.ts';
import { writable } from './inputs.ts';
import { canMerge, unmergeLinks } from './merge-pages.ts';
import { neighborsOf, sameList } from './neighbors.ts';
import { userIds, userIdsOfChanges } from './people.ts';
import { referredValue } from './references.ts';
import { type DataRequest, type DataRoutes, deletionOf, returnUrl } from './routes.ts';
import { authorsOf, readTimeline, withEntries } from './timeline.ts';
import { readUndo, restoreRecord, tagAfter, undoablePosition } from './undo.ts';
import { unlessConflict, unlessMissing } from './unless.ts';
import { editedField, valueForm } from './value-form.ts';
import { displayValue, isTruncated, resourceNoun, textOf, truncate, valueText } from './values.ts';

/** Registers a record's page, its history, and the confirmations for deleting it, restoring it and undoing a change. */
export function recordPages({ get, post }: DataRoutes): void {
  get('/:id', async (context) => {
    const only = editedField(context, field(context.request.query as Form, 'edit'))?.name;
    if (only === undefined) return showRecord(context);
    const stored = await readStored(context);
    const feedback = await suggestionsFor(context, { record: stored.record, only });
    const state = { texts: stored.texts, ...feedback };
    return showRecord(context, { form: valueForm(context, { only, stored, state, tag: stored.tag }) });
  });
  get('/:id/value', sendValue);
  get('/:id/delete', (context) => confirmDelete(context));
  post('/:id/delete', async (context) => {
    const { request, reply, resource, calls, titles } = context;
    const { id } = request.params as { id: string };
    const { record } = await calls.read(resource, id);
    try {
      const deletion = await unlessConflict(() => calls.remove(resource, id, tagIn(request)));
      if (deletion === undefined)
        return confirmDelete(context, { problem: context.t('changedByOthers'), status: 412 });
    } catch (error) {
      if (!(error instanceof HttpError) || error.status !== 409) throw error;
      return confirmDelete(context, rejectedDelete(context, id, error));
    }
    return redirectDone(request, reply, returnUrl(context, formOf(request)), 'record-deleted', {
      name: titles.of(resource, record),
      id,
      change: await undoablePosition(context, id),
    });
  });
  get('/:id/undo', (context) => confirmUndo(context, field(context.request.query as Form, 'change')));
  post('/:id/undo', async (context) => {
    const { request, reply, resource, calls, titles, path } = context;
    const { id } = request.params as { id: string };
    const position = field(formOf(request), 'change');
    // The button next to a message returns to the page with the message.
    const from = field(formOf(request), 'from');
    const isConfirmed = from === '';
    const [change, values] = await readUndo(context, id, position);
    if (isRemoval(change)) {
      const record = await restoreRecord(context, id, change, values);
      const restoredId = textOf(record.id);
      const at = isConfirmed ? `${path}/${restoredId}` : returnUrl(context, formOf(request));
      return redirectDone(
        request,
        reply,
        at,
        change.action === 'trash' ? 'record-returned' : 'record-restored',
        {
          name: titles.of(resource, record),
          id: restoredId,
        },
      );
    }
    const tag = isConfirmed ? tagIn(request) : await tagAfter(context, id, change);
    const record = tag && (await unlessConflict(() => calls.patch(resource, id, tag, values)));
    if (!record) return confirmUndo(context, position, context.t('changedByOthers'));
    const back = from === 'board' ? returnUrl(context, formOf(request), `${path}/board`) : `${path}/${id}`;
    return redirectDone(request, reply, back, 'record-undone', {
      name: titles.of(resource, record),
      id,
      change: await undoablePosition(context, id),
    });
  });
}

/** Returns a submitted form. */
const formOf = ({ body }: DataRequest['request']): Form => (body ?? {}) as Form;

const tagIn = (request: DataRequest['request']): string => field(formOf(request), 'tag');

/** A form on a record's page, and why its input was rejected. */
interface RecordInput {
  /** The form for one of the record's values. */
  readonly form?: ValueForm;
  /** The text of a rejected note. */
  readonly note?: string;
  readonly problem?: string | undefined;
}

/** Sends a record's page, or a deleted record's last values and history. */
export async function showRecord(context: DataRequest, edit?: RecordInput): Promise<unknown> {
  const { request, resource, calls, titles, references, path, language, t } = context;
  const sendPage: DataRequest['sendPage'] = (page) => context.sendPage(page, { problem: edit?.problem });
  const { id } = request.params as { id: string };
  const { fields } = resource.definition;
  const cursor = field(request.query as Form, 'history');
  const locale = localeOf(request);
  const history = await calls.history(resource, id, cursor);
  const older = (next: string) => `${path}/${id}?history=${encodeURIComponent(next)}`;
  const stored = await unlessMissing(() =>
    calls.read(resource, id, references.pageExpansion(calls, resource)),
  );
  const timeline = stored && (await readTimeline(context, stored.record, history));
  const people = await context.findPeople([
    ...userIdsOfChanges(resource, history.items),
    ...userIds(resource, [stored?.record ?? null]),
    ...authorsOf(timeline?.entries ?? []),
  ]);
  const neighbors = await neighborsOf(context, id);
  const above = { label: resourceLabel(resource.definition), href: neighbors?.list ?? path };
  const undo = ({ position }: ChangeValues) => `${path}/${id}/undo?change=${encodeURIComponent(position)}`;
  const valueAt = (name: string, more: Readonly<Record<string, string>> = {}) =>
    `${path}/${id}/value?${new URLSearchParams({ field: name, ...more })}`;
  const value = (name: string, { position }: ChangeValues, side: Side) =>
    valueAt(name, { change: position, side });
  if (stored === undefined || timeline === undefined) {
    // A deleted record's history is still available.
    const deletion = history.items.find(isRemoval);
    const last = deletion?.before ?? {};
    const isTrashed = deletion?.action === 'trash';
    const restore = calls.allows(resource, isTrashed ? 'restore' : 'create') ? undo : undefined;
    return sendPage({
      kind: 'record',
      title: titles.of(resource, { ...last, id }),
      above,
      intro: isTrashed ? t('inTrash') : t('wasDeleted'),
      values: fields
        .filter(({ name }) => Object.hasOwn(last, name))
        .map((recordField) => {
          const label = fieldLabel(recordField);
          const text = valueText(recordField, last[recordField.name]);
          const isLong = isTruncated(text, excerptLengths.many);
          return {
            label,
            ...(isLong
              ? { long: truncate(text, excerptLengths.many) }
              : displayValue(recordField, last[recordField.name], {
                  reference: referredValue(references, people, recordField, last),
                  locale,
                  length: excerptLengths.many,
                })),
            ...(isLong &&
              deletion !== undefined && {
                whole: wholeValueLink(language, label, value(recordField.name, deletion, 'before')),
              }),
          };
        }),
      changes: historyEntries(resource, history, people, {
        language,
        undo: (change) =>
          change.action === 'delete' || (change === deletion && isRemoval(change))
            ? restore?.(change)
            : undefined,
        older,
        value,
      }),
    });
  }
  const { record } = stored;
  const kept = sameList(context);
  const editHref = (name: string) => `${path}/${id}${kept === '' ? '?' : `${kept}&`}edit=${name}`;
  const title = titles.of(resource, record);
  const lock = await calls.lockOn(resource, id);
  const changes = historyEntries(resource, { items: timeline.changes, next: undefined }, people, {
    language,
    undo:
      calls.allows(resource, 'update') && lock === undefined
        ? (change) => (change.action === 'update' ? undo(change) : undefined)
        : undefined,
    older,
    value,
  });
  return sendPage({
    kind: 'record',
    title,
    above,
    neighbors: neighbors?.links,
    ...(lock && { intro: messageIn(lock.error, language) }),
    ...(calls.allows(resource, 'update') &&
      lock === undefined && {
        primary: {
          label: t('edit', { name: resourceNoun(resource, language) }),
          href: `${path}/${id}/edit${kept}`,
          icon: 'pencil',
        },
      }),
    links: [
      ...actionLinks(context, id),
      ...(canMerge(context) && lock === undefined
        ? [
            {
              label: t('mergeAnother', { noun: resourceNoun(resource, language) }),
              href: `${path}/${id}/merge`,
            },
          ]
        : []),
      ...(lock === undefined ? await unmergeLinks(context, id) : []),
    ],
    badges: fields
      .filter(({ values, aliasOf }) => values?.isSuggestion === false && aliasOf === undefined)
      .map((recordField) =>
        displayValue(recordField, record[recordField.name], { reference: undefined, locale }),
      )
      .filter(({ hue }) => hue !== undefined),
    values: fields
      .filter(({ aliasOf, set }) => aliasOf === undefined && set !== 'organization')
      // Writable fields come first.
      .toSorted((a, b) => Number(a.set !== undefined) - Number(b.set !== undefined))
      .map((recordField) => {
        const storedValue = record[recordField.name];
        const text = valueText(recordField, storedValue);
        const label = fieldLabel(recordField);
        const isLong = isTruncated(text, excerptLengths.one);
        return {
          label,
          isSystem: recordField.readOnly && recordField.set !== undefined,
          // Fields that are read-only for all members are often empty. Others are shown even if this member cannot write them.
          isOptional:
            resource.context.stored.fields.find(({ name }) => name === recordField.name)?.readOnly ?? false,
          ...(edit?.form?.input.name === recordField.name && { form: edit.form }),
          ...(edit === undefined &&
            lock?.changeable.includes(recordField.name) !== false &&
            editedField(context, recordField.name) !== undefined && {
              edit: { label: t('edit', { name: label }), href: editHref(recordField.name) },
            }),
          ...((recordField.type.form.control === 'lines' && text !== '') || isLong
            ? { long: truncate(text, excerptLengths.one) }
            : displayValue(recordField, storedValue, {
                reference: referredValue(references, people, recordField, record),
                locale,
                length: excerptLengths.one,
              })),
          ...(isLong && {
            whole: wholeValueLink(language, label, valueAt(recordField.name)),
          }),
        };
      }),
    related: references.lists(calls, resource, record),
    changes: {
      ...changes,
      title: t('timeline'),
      all: withEntries(changes, timeline.entries, people),
      older: timeline.older && `${path}/${id}?${new URLSearchParams(timeline.older)}`,
      ...(context.hasNotes &&
        calls.allows(resource, 'update') && {
          form: {
            action: `${path}/${id}/notes${sameList(context)}`,
            value: edit?.note ?? '',
            maxLength: maxNoteLength,
            error: edit?.note === undefined ? undefined : edit.problem,
          },
        }),
    },
    danger: lock === undefined ? deletionOf(context, id) : undefined,
  });
}

/** Sends a record's full current value, or a full value before or after a change, as plain text. */
async function sendValue({ request, reply, resource, calls }: DataRequest): Promise<string> {
  const { id } = request.params as { id: string };
  const query = request.query as Form;
  const name = field(query, 'field');
  const shown = resource.definition.fields.find((candidate) => candidate.name === name);
  if (shown === undefined) throw errors.notFound();
  const [position, side] = [
    field(query, 'change'),
    sides.find((candidate) => candidate === field(query, 'side')),
  ];
  const record =
    position === '' || side === undefined
      ? (await calls.readWhole(resource, id, { fields: name })).record
      : (await calls.change(resource, id, position))[side];
  if (record === null || !Object.hasOwn(record, name)) throw errors.notFound();
  return sendWholeValue(reply, valueText(shown, record[name]));
}

async function confirmDelete(context: DataRequest, rejection?: RejectedDelete) {
  const { request, reply, resource, calls, titles, path, sendPage, language, t } = context;
  const { id } = request.params as { id: string };
  if (!calls.allows(resource, 'delete')) throw errors.forbidden(resource.name, 'delete');
  const { record, tag } = await calls.read(resource, id);
  const at = returnQuery(field({ ...(request.query as Form), ...((request.body ?? {}) as Form) }, 'at'));
  if (rejection !== undefined) reply.code(rejection.status);
  const title = titles.of(resource, record);
  return sendPage(
    {
      kind: 'confirm',
      title: t('deleteQuestion', { name: title }),
      above: { label: title, href: `${path}/${id}` },
      consequence: deletionText(context, 1),
      ...(rejection?.links && { links: rejection.links }),
      action: `${path}/${id}/delete`,
      hidden: [{ name: 'tag', value: tag }],
      submit: t('delete', { name: resourceNoun(resource, language) }),
      cancel: `${path}/${id}`,
    },
    { problem: rejection?.problem, at },
  );
}

/** Why a record was not deleted, as the confirmation page shows it. */
interface RejectedDelete {
  readonly problem: string;
  readonly status: number;
  readonly links?: readonly Link[];
}

/** Explains that other records prevent a delete, and links to them. */
function rejectedDelete(
  { resource, calls, references, language, t }: DataRequest,
  id: string,
  error: HttpError,
): RejectedDelete {
  const { referrers } = error.extra;
  if (referrers === undefined) return { problem: messageIn(error, language), status: error.status };
  return {
    problem: t('referredTo', {
      noun: resourceNoun(resource, language),
      referrers: referrers.map(references.referrersText).join(', '),
    }),
    status: error.status,
    links: referrers.flatMap((entry) => references.referrers(calls, entry, resource, id) ?? []),
  };
}

async function confirmUndo(context: DataRequest, position: string, problem?: Text) {
  const { request, reply, resource, calls, titles, path, sendPage, language, t } = context;
  const { id } = request.params as { id: string };
  const [change, values] = await readUndo(context, id, position);
  const page = {
    action: `${path}/${id}/undo`,
    cancel: `${path}/${id}`,
    isSafe: true,
  } as const satisfies Partial<ConfirmPage>;
  if (problem !== undefined) reply.code(412);
  if (isRemoval(change)) {
    const title = titles.of(resource, { ...change.before, id });
    return sendPage({
      kind: 'confirm',
      ...page,
      title: t('restoreQuestion', { name: title }),
      above: { label: title, href: `${path}/${id}` },
      consequence: change.action === 'trash' ? t('returnsFromTrash') : t('createsAgain'),
      hidden: [{ name: 'change', value: position }],
      submit: t('restore', { name: resourceNoun(resource, language) }),
    });
  }
  const { record, tag } = await calls.read(resource, id);
  const title = titles.of(resource, record);
  return sendPage(
    {
      kind: 'confirm',
      ...page,
      title: t('undoQuestion', { name: title }),
      above: { label: title, href: `${path}/${id}` },
      consequence: t('undoConsequence'),
      values: writable(resource)
        .filter(({ name }) => Object.hasOwn(values, name))
        .map((field) => ({
          label: fieldLabel(field),
          before: truncate(valueText(field, record[field.name]), excerptLengths.many),
          after: truncate(valueText(field, values[field.name]), excerptLengths.many),
        })),
      hidden: [
        { name: 'change', value: position },
        { name: 'tag', value: tag },
      ],
      submit: t('undoChange'),
    },
    { problem },
  );
}
