import { errors, HttpError } from '../../../engine/errors.ts';
import type { Body, ChangeValues } from '../../../engine/records/index.ts';
import { type ConfirmPage, type Form, field, redirectDone } from '../shell/index.ts';
import { excerptLengths } from './calls.ts';
import { createOnce } from './create-once.ts';
import { historyEntries, type Side, sides, undoValues } from './history.ts';
import { writable } from './inputs.ts';
import { userIds, userIdsOfChanges } from './people.ts';
import { referredValue } from './references.ts';
import { type DataRequest, type DataRoutes, deletionOf } from './routes.ts';
import { displayValue, fieldLabel, humanize, isTruncated, resourceNoun, textOf, truncate } from './values.ts';

const conflictText = 'Someone else has changed this record since you opened it. This is the current version.';

/** Registers a record's page, its history, and the confirmations for deleting it, restoring it and undoing a change. */
export function recordPages({ get, post }: DataRoutes): void {
  get('/:id', showRecord);
  get('/:id/value', sendValue);
  get('/:id/delete', (context) => confirmDelete(context));
  post('/:id/delete', async (context) => {
    const { request, reply, resource, calls, titles, path } = context;
    const { id } = request.params as { id: string };
    const { record } = await calls.read(resource, id);
    const deletion = await unlessConflict(() => calls.remove(resource, id, tagIn(request.body)));
    if (deletion === undefined) return confirmDelete(context, conflictText);
    return redirectDone(request, reply, path, 'record-deleted', { name: titles.of(resource, record) });
  });
  get('/:id/undo', (context) => confirmUndo(context, field(context.request.query as Form, 'change')));
  post('/:id/undo', async (context) => {
    const { request, reply, resource, calls, titles, path } = context;
    const { id } = request.params as { id: string };
    const position = field((request.body ?? {}) as Form, 'change');
    const [change, values] = await readUndo(context, position);
    if (change.action === 'delete') {
      const key = position.replace(/[^\w-]/g, '');
      const record = await createOnce(calls, resource, `undo-${id}-${key}`, values);
      const at = `${path}/${textOf(record.id)}`;
      return redirectDone(request, reply, at, 'record-restored', { name: titles.of(resource, record) });
    }
    const record = await unlessConflict(() => calls.patch(resource, id, tagIn(request.body), values));
    if (record === undefined) return confirmUndo(context, position, conflictText);
    return redirectDone(request, reply, `${path}/${id}`, 'record-undone', {
      name: titles.of(resource, record),
    });
  });
}

const tagIn = (body: unknown): string => field((body ?? {}) as Form, 'tag');

/** Runs a write. @returns undefined if another user has changed the record in the meantime */
async function unlessConflict<T>(work: () => Promise<T>): Promise<T | undefined> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof HttpError && error.status === 412) return undefined;
    throw error;
  }
}

async function showRecord(context: DataRequest): Promise<unknown> {
  const { request, resource, calls, titles, references, path, sendPage } = context;
  const { id } = request.params as { id: string };
  const { fields } = resource.definition;
  const cursor = field(request.query as Form, 'history');
  const history = await calls.history(resource, id, cursor);
  const older = (next: string) => `${path}/${id}?history=${encodeURIComponent(next)}`;
  const stored = await calls
    .read(resource, id, references.expansion(calls, fields))
    .catch((error: unknown) => {
      if (error instanceof HttpError && error.status === 404) return undefined;
      throw error;
    });
  const people = await context.findPeople([
    ...userIdsOfChanges(resource, history.items),
    ...userIds(resource, [stored?.record ?? null]),
  ]);
  const above = { label: humanize(resource.name), href: path };
  const undo = ({ position }: ChangeValues) => `${path}/${id}/undo?change=${encodeURIComponent(position)}`;
  const valueAt = (name: string, more: Readonly<Record<string, string>> = {}) =>
    `${path}/${id}/value?${new URLSearchParams({ field: name, ...more })}`;
  const value = (name: string, { position }: ChangeValues, side: Side) =>
    valueAt(name, { change: position, side });
  if (stored === undefined) {
    // A deleted record's history is still available.
    const deletion = history.items.find(({ action }) => action === 'delete');
    const last = deletion?.before ?? {};
    const restore = calls.allows(resource, 'create') ? undo : undefined;
    return sendPage({
      kind: 'record',
      title: titles.of(resource, { ...last, id }),
      above,
      intro: 'This record was deleted.',
      values: fields
        .filter(({ name }) => Object.hasOwn(last, name))
        .map((recordField) => {
          const label = fieldLabel(recordField);
          const text = textOf(last[recordField.name]);
          const isLong = isTruncated(text, excerptLengths.many);
          return {
            label,
            ...(isLong
              ? { long: truncate(text, excerptLengths.many) }
              : displayValue(
                  recordField,
                  last[recordField.name],
                  referredValue(references, people, recordField, last),
                  excerptLengths.many,
                )),
            ...(isLong &&
              deletion !== undefined && {
                whole: {
                  label: 'Show full value',
                  name: `Show full value of ${label}`,
                  href: value(recordField.name, deletion, 'before'),
                },
              }),
          };
        }),
      changes: historyEntries(resource, history, people, {
        undo: (change) => (change.action === 'delete' ? restore?.(change) : undefined),
        older,
        value,
      }),
    });
  }
  const { record } = stored;
  const title = titles.of(resource, record);
  return sendPage({
    kind: 'record',
    title,
    above,
    ...(calls.allows(resource, 'update') && {
      primary: {
        label: `Edit ${resourceNoun(resource)}`,
        href: `${path}/${id}/edit`,
      },
    }),
    values: fields
      .filter(({ aliasOf }) => aliasOf === undefined)
      // Writable fields come first.
      .toSorted((a, b) => Number(a.set !== undefined) - Number(b.set !== undefined))
      .map((recordField) => {
        const storedValue = record[recordField.name];
        const text = textOf(storedValue);
        const label = fieldLabel(recordField);
        const isLong = isTruncated(text, excerptLengths.one);
        return {
          label,
          isReadOnly: recordField.readOnly,
          ...((recordField.type.form.control === 'lines' && text !== '') || isLong
            ? { long: truncate(text, excerptLengths.one) }
            : displayValue(
                recordField,
                storedValue,
                referredValue(references, people, recordField, record),
                excerptLengths.one,
              )),
          ...(isLong && {
            whole: {
              label: 'Show full value',
              name: `Show full value of ${label}`,
              href: valueAt(recordField.name),
            },
          }),
        };
      }),
    changes: historyEntries(resource, history, people, {
      undo: calls.allows(resource, 'update')
        ? (change) => (change.action === 'update' ? undo(change) : undefined)
        : undefined,
      older,
      value,
    }),
    danger: deletionOf(context, id),
  });
}

/** Sends a record's full current value, or a full value before or after a change, as plain text. */
async function sendValue({ request, reply, resource, calls }: DataRequest): Promise<string> {
  const { id } = request.params as { id: string };
  const query = request.query as Form;
  const name = field(query, 'field');
  if (!resource.definition.fields.some((candidate) => candidate.name === name)) throw errors.notFound();
  const [position, side] = [
    field(query, 'change'),
    sides.find((candidate) => candidate === field(query, 'side')),
  ];
  const record =
    position === '' || side === undefined
      ? (await calls.readWhole(resource, id, { fields: name })).record
      : (await calls.change(resource, id, position))[side];
  if (record === null || !Object.hasOwn(record, name)) throw errors.notFound();
  reply.header('content-type', 'text/plain; charset=utf-8');
  return textOf(record[name]);
}

async function confirmDelete(
  { request, reply, resource, calls, titles, path, sendPage }: DataRequest,
  problem?: string,
) {
  const { id } = request.params as { id: string };
  if (!calls.allows(resource, 'delete')) throw errors.forbidden(resource.name, 'delete');
  const { record, tag } = await calls.read(resource, id);
  if (problem !== undefined) reply.code(412);
  const title = titles.of(resource, record);
  return sendPage(
    {
      kind: 'confirm',
      title: `Delete ${title}?`,
      above: { label: title, href: `${path}/${id}` },
      consequence: `Deletes the ${resourceNoun(resource)} for everyone. Records that refer to it are kept but lose the reference. You can restore it later under a new ID.`,
      action: `${path}/${id}/delete`,
      hidden: [{ name: 'tag', value: tag }],
      submit: `Delete ${resourceNoun(resource)}`,
      cancel: `${path}/${id}`,
    },
    { problem },
  );
}

/**
 * Returns a change and the values that undo it.
 * @throws HttpError 404 if the change cannot be undone, or 403 if the member may not undo it
 */
async function readUndo(
  { request, resource, calls }: DataRequest,
  position: string,
): Promise<[ChangeValues, Body]> {
  const { id } = request.params as { id: string };
  const change = await calls.change(resource, id, position);
  const values = undoValues(resource, change);
  if (values === undefined) throw errors.notFound();
  const action = change.action === 'delete' ? 'create' : 'update';
  if (!calls.allows(resource, action)) throw errors.forbidden(resource.name, action);
  return [change, values];
}

async function confirmUndo(context: DataRequest, position: string, problem?: string) {
  const { request, reply, resource, calls, titles, path, sendPage } = context;
  const { id } = request.params as { id: string };
  const [change, values] = await readUndo(context, position);
  const page = {
    action: `${path}/${id}/undo`,
    cancel: `${path}/${id}`,
    isSafe: true,
  } as const satisfies Partial<ConfirmPage>;
  if (problem !== undefined) reply.code(412);
  if (change.action === 'delete') {
    const title = titles.of(resource, { ...change.before, id });
    return sendPage({
      kind: 'confirm',
      ...page,
      title: `Restore ${title}?`,
      above: { label: title, href: `${path}/${id}` },
      consequence:
        'Creates the record again with its previous values, under a new ID. References to it are not restored.',
      hidden: [{ name: 'change', value: position }],
      submit: `Restore ${resourceNoun(resource)}`,
    });
  }
  const { record, tag } = await calls.read(resource, id);
  const title = titles.of(resource, record);
  return sendPage(
    {
      kind: 'confirm',
      ...page,
      title: `Undo this change to ${title}?`,
      above: { label: title, href: `${path}/${id}` },
      consequence: 'Restores the previous values of these fields. Other changes are kept.',
      values: writable(resource)
        .filter(({ name }) => Object.hasOwn(values, name))
        .map((field) => ({
          label: fieldLabel(field),
          before: truncate(textOf(record[field.name]), excerptLengths.many),
          after: truncate(textOf(values[field.name]), excerptLengths.many),
        })),
      hidden: [
        { name: 'change', value: position },
        { name: 'tag', value: tag },
      ],
      submit: 'Undo change',
    },
    { problem },
  );
}
