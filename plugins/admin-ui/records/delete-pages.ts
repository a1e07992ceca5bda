import type { ResourceView } from '../../../engine/compile/index.ts';
import { errors, HttpError } from '../../../engine/errors.ts';
import type { Query } from '../../../engine/query/index.ts';
import { deleteRulesOf, maxBulk, maxItems, removalOf } from '../../../engine/records/index.ts';
import {
  type Form,
  field,
  joinTexts,
  type Language,
  messageIn,
  redirectDone,
  returnQuery,
  type Text,
} from '../shell/index.ts';
import { conditionsOf, queryOf } from './list-parameters.ts';
import { type DataRequest, type DataRoutes, returnUrl } from './routes.ts';
import { selectedIds } from './selected-ids.ts';
import { recordsTexts } from './texts/index.ts';
import { markUndone, transactionOf, undoablePosition, undoMany } from './undo.ts';
import { unlessMissing } from './unless.ts';
import { countNoun, resourceNoun, textOf } from './values.ts';

/** Maximum number of selected records that are named on the confirmation page. */
const maxNamed = 20;

/** Registers the confirmation for deleting several records, and the button that undoes a change to several records. */
export function deletePages({ get, post }: DataRoutes): void {
  get('/delete', (context) => {
    const form = context.request.query as Form;
    return isOfAll(form) ? confirmMatching(context, form) : confirmMany(context, form);
  });
  post('/delete', async (context) => {
    const { request, reply, resource, calls, language } = context;
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
        name: countNoun(resource, deleted.length, language),
        change: position && transactionOf(position),
      },
    );
  });
  get('/undo', async ({ reply, path }) => reply.redirect(path, 303));
  post('/undo', async (context) => {
    const { request, reply, resource, language } = context;
    const form = (request.body ?? {}) as Form;
    const { undone, kept, kind } = await undoMany(context, field(form, 'change'));
    // An import can also have only updated records.
    if (kind !== 'removal') await markUndone(context, field(form, 'change'));
    const done = {
      import: kept === 0 ? 'import-undone' : 'import-undone-partly',
      removal: resource.definition.trash === undefined ? 'records-restored' : 'records-returned',
      update: kept === 0 ? 'records-undone' : 'records-undone-partly',
    };
    return redirectDone(request, reply, returnUrl(context, form), done[kind], {
      name: countNoun(resource, undone, language),
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
  const { request, reply, resource, calls, language } = context;
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
    name: countNoun(resource, count, language),
    change: position && transactionOf(position),
  });
}

/**
 * Sends the confirmation for deleting all records that match the filters of the list.
 * @param rejection why they could not be deleted
 */
async function confirmMatching(context: DataRequest, form: Form, rejection?: HttpError) {
  const { request, resource, calls, titles, path, reply, sendPage, language, t } = context;
  const conditions = conditionsIn(context, form);
  const { count, confirm = '' } = await calls.removeMatching(resource, conditions);
  const back = returnUrl(context, form);
  if (count === 0) return redirectDone(request, reply, back, 'records-kept');
  const { items, total } = await calls.list(resource, filtersIn(context, form));
  // Some of the records in the list can be ones that the member cannot delete.
  const named = total === count ? items.slice(0, maxNamed) : [];
  if (rejection !== undefined) reply.code(rejection.status);
  return sendPage(
    {
      kind: 'confirm',
      title: t('deleteQuestion', { name: countNoun(resource, count, language) }),
      above: { label: t('backToList'), href: back },
      consequence: joinTexts([deletionText(context, count), ...(count === 1 ? [] : [t('allOrNone')])]),
      items: [
        ...named.map((record) => titles.of(resource, record)),
        ...(named.length > 0 && count > named.length ? [t('andMore', { count: count - named.length })] : []),
      ],
      action: `${path}/delete`,
      hidden: [
        { name: 'query', value: field(form, 'query') },
        { name: 'step', value: 'all' },
        { name: 'confirm', value: confirm },
      ],
      submit: t('delete', { name: countNoun(resource, count, language) }),
      cancel: back,
    },
    { at: returnQuery(field(form, 'at')), problem: rejection && rejectionText(rejection, context) },
  );
}

/** Explains why no record was deleted. */
function rejectionText(error: HttpError, { language, t }: Pick<DataRequest, 'language' | 't'>): Text {
  if (error.code === 'count_changed') return t('countChanged');
  if (error.code === 'invalid_input') return t('pageExpired');
  return messageIn(error, language);
}

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
  const { request, resource, calls, titles, path, reply, sendPage, language, t } = context;
  if (!calls.allows(resource, 'delete')) throw errors.forbidden(resource.name, 'delete');
  const back = returnUrl(context, form);
  const selected = selectedIds(form);
  if (selected.length === 0) return reply.redirect(back, 303);
  const found = await Promise.all(
    selected.slice(0, maxNamed).map((id) => unlessMissing(() => calls.read(resource, id))),
  );
  // Records that somebody else has deleted since the user selected them are not named or counted.
  const ids = selected.filter((_, index) => index >= maxNamed || found[index] !== undefined);
  if (ids.length === 0) return redirectDone(request, reply, back, 'records-gone');
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
      title: t('deleteQuestion', { name: countNoun(resource, ids.length, language) }),
      above: { label: t('backToList'), href: back },
      consequence: deletionText(context, ids.length),
      items: [
        ...found.flatMap((each) => (each === undefined ? [] : [titles.of(resource, each.record)])),
        ...(selected.length > maxNamed ? [t('andMore', { count: selected.length - maxNamed })] : []),
      ],
      action: `${path}/delete`,
      hidden: [
        { name: 'query', value: field(form, 'query') },
        ...ids.map((value) => ({ name: 'id', value })),
        ...(matching?.confirm === undefined ? [] : [{ name: 'confirm', value: matching.confirm }]),
      ],
      submit: t('delete', { name: countNoun(resource, ids.length, language) }),
      also:
        matching !== undefined && matching.count > 0
          ? {
              label: t('deleteAllInList', { records: countNoun(resource, matching.count, language) }),
              value: 'all',
            }
          : undefined,
      cancel: back,
    },
    { at: returnQuery(field(form, 'at')) },
  );
}

/** Describes the consequences of deleting a number of a resource's records. */
export function deletionText({ resource, references, language, t }: DataRequest, count: number): Text {
  const { trash } = resource.definition;
  const { cascade, restrict, clear } = deleteRulesOf(
    resource.name,
    resource.context.referrers,
    removalOf(resource.definition),
  );
  const namesOf = (
    referrers: readonly { readonly resource: string }[],
    type: 'conjunction' | 'disjunction',
  ) =>
    new Intl.ListFormat(language, { type }).format(
      new Set(referrers.map((referrer) => references.wordsFor(referrer.resource))),
    );
  const isOne = count === 1;
  const isDefault = cascade.length + restrict.length === 0;
  const blocking = { others: namesOf(restrict, 'disjunction') };
  const days = trash === undefined ? '' : t('days', { count: trash.days });
  const sentences = [
    removalText(resource, { isOne, others: namesOf(cascade, 'conjunction'), language }),
    ...(restrict.length === 0
      ? []
      : [
          cascade.length > 0
            ? t('notWhileAny', blocking)
            : isOne
              ? t('notWhileOne', blocking)
              : t('notWhileMany', blocking),
        ]),
    ...(isDefault && trash === undefined ? [isOne ? t('losesOne') : t('losesMany')] : []),
    ...(!isDefault && clear.length > 0 ? [isOne ? t('othersLoseOne') : t('othersLoseMany')] : []),
    trash !== undefined
      ? isOne
        ? t('restorableOne', { days })
        : t('restorableMany', { days })
      : isOne && cascade.length === 0
        ? t('restoreLaterOne')
        : t('restoreLaterMany'),
  ];
  return joinTexts(sentences);
}

/** Returns the sentence that names the deleted records. @param others the records that depend on the deleted ones, if any */
function removalText(
  resource: ResourceView,
  {
    isOne,
    others,
    language,
  }: { readonly isOne: boolean; readonly others: string; readonly language: Language },
): Text {
  const t = recordsTexts(language);
  const noun = resourceNoun(resource, language);
  const isTrashed = resource.definition.trash !== undefined;
  if (others === '' && isOne) return isTrashed ? t('movesOne', { noun }) : t('deletesOne', { noun });
  if (others === '') return isTrashed ? t('movesMany') : t('deletesMany');
  if (isOne) return isTrashed ? t('movesOneWith', { noun, others }) : t('deletesOneWith', { noun, others });
  return isTrashed ? t('movesManyWith', { others }) : t('deletesManyWith', { others });
}
