import { recordLabel, resourceLabel } from '../../../engine/definition/index.ts';
import { errors } from '../../../engine/errors.ts';
import { fieldLabel } from '../../../engine/fields/index.ts';
import { type Action, trashedAt } from '../../../engine/records/index.ts';
import { localeOf, redirectDone, type Text, type TextIn } from '../shell/index.ts';
import { countText, isLastPage } from './list-page.ts';
import type { DataRequest, DataRoutes } from './routes.ts';
import { type RecordsText, recordsTexts } from './texts/index.ts';
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
  const { request, resource, path, calls, titles, sendPage, language, t } = context;
  const {
    trash,
    page: { size },
  } = resource.definition;
  if (trash === undefined) throw errors.notFound();
  if (!calls.allows(resource, 'restore')) throw errors.forbidden(resource.name, 'restore');
  const cursor = new URLSearchParams(request.url.split('?')[1] ?? '').get('cursor') ?? '';
  const query = { trashed: 'true', ...(cursor !== '' && { cursor }) };
  const { items, page, next, total } = await calls.list(resource, query);
  const canRead = calls.allows(resource, 'read');
  const locale = localeOf(request);
  return sendPage({
    kind: 'list',
    title: t('recordsInTrash', { records: resourceLabel(resource.definition) }),
    above: { label: resourceLabel(resource.definition), href: path },
    intro: t('trashPeriod', { days: t('days', { count: trash.days }) }),
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
          ...(canRead
            ? [
                {
                  label: t('restoreLabel'),
                  name: t('restore', { name: title }),
                  href: `${path}/${id}/restore`,
                },
              ]
            : []),
          ...(canRead && calls.allows(resource, 'delete')
            ? [
                {
                  label: t('deletePermanentlyLabel'),
                  name: t('deletePermanently', { name: title }),
                  href: `${path}/${id}/purge`,
                },
              ]
            : []),
        ],
      };
    }),
    empty: { text: t('noneInTrash', { records: resourceWords(resource, language) }) },
    count: items.length === 0 ? undefined : countText(total, { page, count: items.length, size }, language),
    first: cursor === '' ? undefined : `${path}/trash`,
    next:
      next === undefined || isLastPage(total, { page, size })
        ? undefined
        : `${path}/trash?cursor=${encodeURIComponent(next)}`,
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
  readonly title: (record: string, t: RecordsText) => Text;
  readonly consequence: TextIn;
  readonly submit: (noun: string, t: RecordsText) => Text;
}

const restoring: TrashAction = {
  name: 'restore',
  actions: ['restore'],
  title: (name, t) => t('restoreQuestion', { name }),
  consequence: recordsTexts.later('returnsFromTrash'),
  submit: (name, t) => t('restore', { name }),
};

const purging: TrashAction = {
  name: 'purge',
  actions: ['restore', 'delete'],
  title: (name, t) => t('deletePermanentlyQuestion', { name }),
  consequence: recordsTexts.later('purges'),
  submit: (name, t) => t('deletePermanently', { name }),
};

async function confirm(context: DataRequest, action: TrashAction) {
  const { request, resource, calls, path, sendPage, language, t } = context;
  const { id } = request.params as { id: string };
  for (const needed of action.actions)
    if (!calls.allows(resource, needed)) throw errors.forbidden(resource.name, needed);
  const back = `${path}/trash`;
  return sendPage({
    kind: 'confirm',
    title: action.title(await titleOf(context, id), t),
    above: { label: t('backToTrash'), href: back },
    consequence: action.consequence(language),
    action: `${path}/${id}/${action.name}`,
    hidden: [],
    submit: action.submit(resourceNoun(resource, language), t),
    cancel: back,
  });
}
