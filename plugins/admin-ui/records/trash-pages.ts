import { recordLabel, resourceLabel } from '../../../engine/definition/index.ts';
import { errors } from '../../../engine/errors.ts';
import { fieldLabel } from '../../../engine/fields/index.ts';
import { type Action, daysText, trashedAt } from '../../../engine/records/index.ts';
import { localeOf, redirectDone } from '../shell/index.ts';
import { countText } from './list-page.ts';
import type { DataRequest, DataRoutes } from './routes.ts';
import { displayValue, resourceNoun, resourceWords, textOf } from './values.ts';

/** Registers the list of records in the trash, and the confirmations for restoring and deleting them. */
export function trashPages({ get, post }: DataRoutes): void {
  get('/trash', listTrash);
  get('/:id/restore', (context) => confirm(context, restoring));
  post('/:id/restore', async (context) => {
    const { request, reply, resource, calls, titles, path } = context;
    const { id } = request.params as { id: string };
    const record = await calls.restore(resource, id);
    const name = titles.of(resource, record);
    return redirectDone(request, reply, `${path}/${id}`, 'record-returned', { name, id });
  });
  get('/:id/purge', (context) => confirm(context, purging));
  post('/:id/purge', async (context) => {
    const { request, reply, resource, calls, path } = context;
    const { id } = request.params as { id: string };
    const name = await titleOf(context, id);
    await calls.purge(resource, id);
    return redirectDone(request, reply, `${path}/trash`, 'record-purged', { name });
  });
}

async function listTrash(context: DataRequest) {
  const { request, resource, path, calls, titles, sendPage } = context;
  const { trash } = resource.definition;
  if (trash === undefined) throw errors.notFound();
  if (!calls.allows(resource, 'restore')) throw errors.forbidden(resource.name, 'restore');
  const cursor = new URLSearchParams(request.url.split('?')[1] ?? '').get('cursor') ?? '';
  const query = { trashed: 'true', ...(cursor !== '' && { cursor }) };
  const { items, next, total } = await calls.list(resource, query);
  const canRead = calls.allows(resource, 'read');
  const locale = localeOf(request);
  return sendPage({
    kind: 'list',
    title: `${resourceLabel(resource.definition)} in the trash`,
    above: { label: resourceLabel(resource.definition), href: path },
    intro: `Records are deleted permanently after ${daysText(trash)} in the trash.`,
    columns: [{ title: recordLabel(resource.definition) }, { title: fieldLabel(trashedAt) }],
    rows: items.map((record) => {
      const id = textOf(record.id);
      const title = titles.of(resource, record);
      return {
        id,
        cells: [
          { text: title, ...(canRead && { href: `${path}/${id}` }) },
          displayValue(trashedAt, record[trashedAt.name], { reference: undefined, locale }),
        ],
        links: [
          ...(canRead ? [{ label: 'Restore', name: `Restore ${title}`, href: `${path}/${id}/restore` }] : []),
          ...(canRead && calls.allows(resource, 'delete')
            ? [
                {
                  label: 'Delete permanently',
                  name: `Delete ${title} permanently`,
                  href: `${path}/${id}/purge`,
                },
              ]
            : []),
        ],
      };
    }),
    empty: { text: `No ${resourceWords(resource)} in the trash.` },
    count: total === 0 ? undefined : countText(total, cursor === '' ? items.length : undefined),
    first: cursor === '' ? undefined : `${path}/trash`,
    next: next === undefined ? undefined : `${path}/trash?cursor=${encodeURIComponent(next)}`,
  });
}

/** Returns the title of a record in the trash. @throws HttpError 404 if the trash does not contain the record */
async function titleOf({ resource, calls, titles }: DataRequest, id: string): Promise<string> {
  const [latest] = (await calls.history(resource, id, '')).items;
  if (latest?.action !== 'trash') throw errors.notFound();
  return titles.of(resource, { ...latest.before, id });
}

/** An action on a record in the trash. */
interface TrashAction {
  readonly name: string;
  /** The grants that it requires in addition to reading. */
  readonly actions: readonly Action[];
  readonly title: (record: string) => string;
  readonly consequence: string;
  readonly submit: (noun: string) => string;
}

const restoring: TrashAction = {
  name: 'restore',
  actions: ['restore'],
  title: (record) => `Restore ${record}?`,
  consequence: 'Returns the record from the trash, with its ID and all references to it.',
  submit: (noun) => `Restore ${noun}`,
};

const purging: TrashAction = {
  name: 'purge',
  actions: ['restore', 'delete'],
  title: (record) => `Delete ${record} permanently?`,
  consequence: 'Deletes the record for everyone. It cannot be restored under the same ID.',
  submit: (noun) => `Delete ${noun} permanently`,
};

async function confirm(context: DataRequest, action: TrashAction) {
  const { request, resource, calls, path, sendPage } = context;
  const { id } = request.params as { id: string };
  for (const needed of action.actions)
    if (!calls.allows(resource, needed)) throw errors.forbidden(resource.name, needed);
  const back = `${path}/trash`;
  return sendPage({
    kind: 'confirm',
    title: action.title(await titleOf(context, id)),
    above: { label: 'Back to the trash', href: back },
    consequence: action.consequence,
    action: `${path}/${id}/${action.name}`,
    hidden: [],
    submit: action.submit(resourceNoun(resource)),
    cancel: back,
  });
}
