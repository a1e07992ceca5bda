import type { ResourceView } from '../../../engine/compile/index.ts';
import { errors, HttpError } from '../../../engine/errors.ts';
import type { Query } from '../../../engine/query/index.ts';
import { daysText, deleteRulesOf, maxBulk, maxItems, removalOf } from '../../../engine/records/index.ts';
import { type Form, field, fields, redirectDone, returnQuery } from '../shell/index.ts';
import { conditionsOf, queryOf } from './list-page.ts';
import type { References } from './references.ts';
import { type DataRequest, type DataRoutes, returnUrl } from './routes.ts';
import { restoreMany, undoablePosition } from './undo.ts';
import { countNoun, isRecordId, resourceNoun, textOf } from './values.ts';

const numbers = new Intl.NumberFormat('en');

/** Maximum number of selected records that are named on the confirmation page. */
const maxNamed = 20;

/** Registers the confirmation for deleting several records, and the button that restores them. */
export function deletePages({ get, post }: DataRoutes): void {
  get('/delete', (context) => {
    const form = context.request.query as Form;
    return isOfAll(form) ? confirmMatching(context, form) : confirmMany(context, form);
  });
  post('/delete', async (context) => {
    const { request, reply, resource, calls } = context;
    const form = (request.body ?? {}) as Form;
    if (isOfAll(form)) return removeMatching(context, form);
    const ids = selectedIds(form);
    if (ids.length === 0) return confirmMany(context, form);
    const { deleted, failed } = await calls.removeMany(resource, ids);
    const [first] = deleted;
    const position = first === undefined ? undefined : await undoablePosition(context, first);
    return redirectDone(
      request,
      reply,
      returnUrl(context, form),
      failed === 0 ? 'records-deleted' : 'records-deleted-partly',
      {
        name: countNoun(resource, deleted.length),
        change: position && transactionOf(position),
      },
    );
  });
  get('/undo', async ({ reply, path }) => reply.redirect(path, 303));
  post('/undo', async (context) => {
    const { request, reply, resource } = context;
    const form = (request.body ?? {}) as Form;
    const count = await restoreMany(context, field(form, 'change'));
    const done = resource.definition.trash === undefined ? 'records-restored' : 'records-returned';
    return redirectDone(request, reply, returnUrl(context, form), done, {
      name: countNoun(resource, count),
    });
  });
}

/** Returns whether a form applies to all records of the list from which the user started. */
const isOfAll = (form: Form): boolean => field(form, 'step') === 'all';

/** Returns the filters of the list from which the user started. An unfiltered list has none. */
const conditionsIn = ({ resource }: DataRequest, form: Form): Query =>
  conditionsOf(resource, new URLSearchParams(field(form, 'query'))) ?? {};

/** Deletes all records that match the filters of the list, or explains why none was deleted. */
async function removeMatching(context: DataRequest, form: Form) {
  const { request, reply, resource, calls } = context;
  const conditions = conditionsIn(context, form);
  const { items } = await calls.list(resource, filtersIn(context, form));
  let count: number;
  try {
    ({ count } = await calls.removeMatching(resource, conditions, field(form, 'confirm')));
  } catch (error) {
    if (!(error instanceof HttpError) || ![400, 409].includes(error.status)) throw error;
    return confirmMatching(context, form, error);
  }
  // The first record in the list can be one that the member cannot delete.
  let position: string | undefined;
  for (const { id } of count > maxItems ? [] : items) {
    position = await undoablePosition(context, textOf(id));
    if (position !== undefined) break;
  }
  return redirectDone(request, reply, returnUrl(context, form), 'records-deleted', {
    name: countNoun(resource, count),
    change: position && transactionOf(position),
  });
}

/**
 * Sends the confirmation for deleting all records that match the filters of the list.
 * @param rejection why they could not be deleted
 */
async function confirmMatching(context: DataRequest, form: Form, rejection?: HttpError) {
  const { request, resource, calls, titles, references, path, reply, sendPage } = context;
  const conditions = conditionsIn(context, form);
  const { count, confirm = '' } = await calls.removeMatching(resource, conditions);
  const back = returnUrl(context, form);
  if (count === 0) return redirectDone(request, reply, back, 'records-kept');
  const { items } = await calls.list(resource, filtersIn(context, form));
  // Some of the records in the list can be ones that the member cannot delete.
  const named = items.length <= count ? items.slice(0, maxNamed) : [];
  if (rejection !== undefined) reply.code(rejection.status);
  return sendPage(
    {
      kind: 'confirm',
      title: `Delete ${countNoun(resource, count)}?`,
      above: { label: 'Back to the list', href: back },
      consequence: `${deletionText(resource, references, count)}${count === 1 ? '' : ' If one of them cannot be deleted, none of them is deleted.'}`,
      items: [
        ...named.map((record) => titles.of(resource, record)),
        ...(named.length > 0 && count > named.length
          ? [`and ${numbers.format(count - named.length)} more`]
          : []),
      ],
      action: `${path}/delete`,
      hidden: [
        { name: 'query', value: field(form, 'query') },
        { name: 'step', value: 'all' },
        { name: 'confirm', value: confirm },
      ],
      submit: `Delete ${countNoun(resource, count)}`,
      cancel: back,
    },
    { at: returnQuery(field(form, 'at')), problem: rejection && rejectionText(rejection) },
  );
}

/** Explains why no record was deleted. */
function rejectionText({ code, message }: HttpError): string {
  if (code === 'count_changed')
    return 'The number of records that match has changed since this page was opened. Nothing was deleted.';
  if (code === 'invalid_input') return 'This page has expired. Nothing was deleted. Confirm again.';
  return message;
}

/** Returns the transaction in a change's position. */
const transactionOf = (position: string): string => position.split('-')[0] ?? '';

/** Returns the selected IDs in a form. */
const selectedIds = (form: Form): readonly string[] =>
  [...new Set(fields(form, 'id'))].filter(isRecordId).slice(0, maxItems);

/** Returns the filters of the list from which the user started. */
function filtersIn({ resource }: DataRequest, form: Form): Query {
  const {
    page: _page,
    cursor: _cursor,
    ...filters
  } = queryOf(resource, new URLSearchParams(field(form, 'query')));
  return filters;
}

async function confirmMany(context: DataRequest, form: Form) {
  const { resource, calls, titles, references, path, reply, sendPage } = context;
  if (!calls.allows(resource, 'delete')) throw errors.forbidden(resource.name, 'delete');
  const back = returnUrl(context, form);
  const ids = selectedIds(form);
  if (ids.length === 0) return reply.redirect(back, 303);
  const found = await Promise.all(
    ids.slice(0, maxNamed).map(async (id) => {
      try {
        return [titles.of(resource, (await calls.read(resource, id)).record)];
      } catch (error) {
        if (error instanceof HttpError && error.status === 404) return [];
        throw error;
      }
    }),
  );
  const { items, total } = await calls.list(resource, filtersIn(context, form));
  // Offered to users who have selected the whole first page.
  const isPageSelected = items.length > 0 && items.every(({ id }) => ids.includes(textOf(id)));
  const canDeleteAll = isPageSelected && total > ids.length && total <= maxBulk;
  // The button deletes without another confirmation, so its label needs the number of records that the member can delete.
  const matching = canDeleteAll
    ? await calls.removeMatching(resource, conditionsIn(context, form))
    : undefined;
  return sendPage(
    {
      kind: 'confirm',
      title: `Delete ${countNoun(resource, ids.length)}?`,
      above: { label: 'Back to the list', href: back },
      consequence: deletionText(resource, references, ids.length),
      items: [...found.flat(), ...(ids.length > maxNamed ? [`and ${ids.length - maxNamed} more`] : [])],
      action: `${path}/delete`,
      hidden: [
        { name: 'query', value: field(form, 'query') },
        ...ids.map((value) => ({ name: 'id', value })),
        ...(matching?.confirm === undefined ? [] : [{ name: 'confirm', value: matching.confirm }]),
      ],
      submit: `Delete ${countNoun(resource, ids.length)}`,
      also:
        matching !== undefined && matching.count > 0
          ? { label: `Delete all ${countNoun(resource, matching.count)} in the list`, value: 'all' }
          : undefined,
      cancel: back,
    },
    { at: returnQuery(field(form, 'at')) },
  );
}

/** Describes the consequences of deleting a number of a resource's records. */
export function deletionText(
  resource: ResourceView,
  { wordsFor }: Pick<References, 'wordsFor'>,
  count: number,
): string {
  const { trash } = resource.definition;
  const { cascade, restrict, clear } = deleteRulesOf(
    resource.name,
    resource.context.referrers,
    removalOf(resource.definition),
  );
  const names = (references: readonly { readonly resource: string }[], type: 'conjunction' | 'disjunction') =>
    new Intl.ListFormat('en', { type }).format(
      new Set(references.map((reference) => wordsFor(reference.resource))),
    );
  const isDefault = cascade.length + restrict.length === 0;
  const [subject, it] = count === 1 ? [`the ${resourceNoun(resource)}`, 'it'] : ['these records', 'them'];
  return [
    `${trash === undefined ? 'Deletes' : 'Moves'} ${subject} ${trash === undefined ? 'for everyone' : 'to the trash'}${cascade.length === 0 ? '' : `, together with the ${names(cascade, 'conjunction')} that depend on ${it}`}.`,
    ...(restrict.length === 0
      ? []
      : [
          `This is not possible while ${names(restrict, 'disjunction')} refer to ${cascade.length === 0 ? it : 'these records'}.`,
        ]),
    ...(isDefault && trash === undefined
      ? [`Records that refer to ${it} are kept but lose the reference.`]
      : []),
    ...(!isDefault && clear.length > 0
      ? [`Other records that refer to ${it} are kept but lose the reference.`]
      : []),
    trash !== undefined
      ? `${count === 1 ? 'It' : 'They'} can be restored for ${daysText(trash)}.`
      : cascade.length === 0 && count === 1
        ? 'You can restore it later under a new ID.'
        : 'You can restore each of these records later under a new ID.',
  ].join(' ');
}
