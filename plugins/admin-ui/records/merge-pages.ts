import { errors, HttpError } from '../../../engine/errors.ts';
import { fieldLabel, refersToMany } from '../../../engine/fields/index.ts';
import { type Action, isBlank, undoDays } from '../../../engine/records/index.ts';
import { tablesOf } from '../../../engine/tables/index.ts';
import {
  type DoneMessage,
  exactTime,
  type Form,
  field,
  fields,
  joinTexts,
  type Link,
  localeOf,
  messageIn,
  redirectDone,
  returnQuery,
  type Text,
} from '../shell/index.ts';
import { userIds } from './people.ts';
import { referredValue } from './references.ts';
import { type DataRequest, type DataRoutes, returnUrl } from './routes.ts';
import { findMatch, firstMatches, searchQuery } from './typed-references.ts';
import { displayValue, isRecordId, resourceNoun, resourceWords, textOf } from './values.ts';

/** The actions that a member needs to compare and merge records. */
const neededActions: readonly Action[] = ['read', 'update', 'delete'];

/** Returns whether a member can merge a resource's records. */
export const canMerge = ({ resource, calls }: Pick<DataRequest, 'resource' | 'calls'>): boolean =>
  neededActions.every((action) => calls.allows(resource, action));

/** Returns whether a member can undo merges of a resource's records. */
const canUnmerge = ({ resource, calls }: Pick<DataRequest, 'resource' | 'calls'>): boolean =>
  calls.allows(resource, 'update') &&
  calls.allows(resource, resource.definition.trash === undefined ? 'create' : 'restore');

/** Returns the button next to the message about a merge, which undoes it. */
export const unmergeButton: DoneMessage['undo'] = ({ url }, { id, change }) => {
  const [path] = /^\/setup\/o\/[^/?]+\/data\/[^/?]+/.exec(url) ?? [];
  if (path === undefined || id === undefined || change === undefined) return undefined;
  return { action: `${path}/${encodeURIComponent(id)}/unmerge`, fields: [{ name: 'from', value: change }] };
};

/** Maximum number of merges that a record's page offers to undo. */
const maxLinks = 5;

/** Returns links to the pages that undo merges into a record, the latest first. */
export async function unmergeLinks(context: DataRequest, id: string): Promise<readonly Link[]> {
  if (!canUnmerge(context)) return [];
  return (await mergesInto(context, id)).map(({ from_id }) => ({
    label: context.t('undoMergeOf', { noun: resourceNoun(context.resource, context.language), id: from_id }),
    href: `${context.path}/${id}/unmerge?from=${from_id}`,
  }));
}

/** Returns the latest merges into a record that can be undone. @param from only the merge of this record */
const mergesInto = ({ database, resource, member }: DataRequest, id: string, from?: string) =>
  tablesOf(database)
    .selectFrom('crm_merges')
    .select(['from_id', 'merged_at'])
    .where('organization_id', '=', member.membership.organization)
    .where('resource', '=', resource.name)
    .where('record_id', '=', id)
    .where('merged_at', '>', new Date(Date.now() - undoDays * 86_400_000))
    .$if(from !== undefined, (query) => query.where('from_id', '=', from ?? ''))
    .orderBy('merged_at', 'desc')
    .limit(maxLinks)
    .execute();

/** Registers the pages that find the other record of a merge, and that compare two selected records and merge them. */
export function mergePages({ get, post }: DataRoutes): void {
  get('/:id/merge', (context) => findOther(context));
  post('/:id/merge', async (context) => {
    const { request, reply, resource, path, t } = context;
    const { id } = request.params as { id: string };
    const text = field((request.body ?? {}) as Form, 'other').trim();
    if (text === '') return findOther(context, { text, problem: t('enterOther') });
    const match = isRecordId(text) ? { id: text } : await findMatch(context, resource, text, '');
    if ('problem' in match) return findOther(context, { text, problem: match.problem });
    if (match.id === id) return findOther(context, { text, problem: t('sameRecord') });
    return reply.redirect(
      `${path}/merge?${new URLSearchParams([
        ['id', id],
        ['id', match.id],
      ])}`,
      303,
    );
  });
  get('/:id/unmerge', (context) => confirmUnmerge(context, context.request.query as Form));
  post('/:id/unmerge', async (context) => {
    const { request, reply, resource, calls, titles, path } = context;
    const { id } = request.params as { id: string };
    const form = (request.body ?? {}) as Form;
    try {
      const record = await calls.unmerge(resource, id, field(form, 'from'));
      return redirectDone(request, reply, `${path}/${id}`, 'record-unmerged', {
        name: titles.of(resource, record),
        id,
      });
    } catch (error) {
      if (!(error instanceof HttpError) || error.status !== 409) throw error;
      return confirmUnmerge(context, form, error);
    }
  });
  get('/merge', (context) => compareRecords(context, context.request.query as Form));
  post('/merge', async (context) => {
    const { request, reply, resource, calls, titles } = context;
    const form = (request.body ?? {}) as Form;
    const [id, from] = selectedPair(context, form);
    try {
      const record = await calls.merge(resource, id, from, field(form, 'tag'));
      return redirectDone(request, reply, returnUrl(context, form), 'record-merged', {
        name: titles.of(resource, record),
        id,
        ...(canUnmerge(context) && { change: from }),
      });
    } catch (error) {
      if (!(error instanceof HttpError) || ![400, 409, 412].includes(error.status)) throw error;
      return compareRecords(context, form, error);
    }
  });
}

/** Sends the form for the record that is merged into the one in the URL. @param rejected the previous input */
async function findOther(context: DataRequest, rejected?: { readonly text: string; readonly problem: Text }) {
  const { request, reply, resource, calls, titles, path, sendPage, language, t } = context;
  if (!canMerge(context)) throw errors.forbidden(resource.name, 'delete');
  const { id } = request.params as { id: string };
  const { record } = await calls.read(resource, id);
  const canSearch = resource.definition.search.length > 0;
  const suggested = await firstMatches(
    calls,
    resource,
    canSearch && rejected !== undefined && rejected.text !== '' ? searchQuery(rejected.text) : undefined,
  );
  const noun = resourceNoun(resource, language);
  if (rejected !== undefined) reply.code(400);
  return sendPage({
    kind: 'form',
    title: t('mergeInto', { noun, name: titles.of(resource, record) }),
    above: { label: titles.of(resource, record), href: `${path}/${id}` },
    intro: t('mergeIntro'),
    action: `${path}/${id}/merge`,
    inputs: [
      {
        kind: 'suggestions',
        name: 'other',
        label: t('otherRecord', { noun }),
        required: true,
        maxLength: 200,
        value: rejected?.text ?? '',
        focus: true,
        help: canSearch ? t('searchHelp') : t('idHelp'),
        error: rejected?.problem,
        options: suggested
          .filter((other) => textOf(other.id) !== id)
          .map((other) => ({ value: `${titles.of(resource, other)} (${textOf(other.id)})`, label: '' })),
      },
    ],
    submit: t('compare'),
    cancel: `${path}/${id}`,
  });
}

/** Sends the page that undoes a merge. @param rejection why it could not be undone */
async function confirmUnmerge(context: DataRequest, form: Form, rejection?: HttpError) {
  const { request, reply, resource, calls, titles, path, sendPage, language, t } = context;
  if (!canUnmerge(context)) throw errors.forbidden(resource.name, 'update');
  const { id } = request.params as { id: string };
  const from = field(form, 'from');
  const { record } = await calls.read(resource, id);
  const [found] = isRecordId(from) ? await mergesInto(context, id, from) : [];
  if (found === undefined && rejection === undefined) throw errors.notFound();
  const noun = resourceNoun(resource, language);
  const title = titles.of(resource, record);
  if (rejection !== undefined) reply.code(rejection.status);
  return sendPage(
    {
      kind: 'confirm',
      title: t('undoMergeQuestion', { noun, id: from, name: title }),
      above: { label: title, href: `${path}/${id}` },
      consequence: joinTexts([
        ...(found === undefined ? [] : [t('mergedOn', { time: exactTime(found.merged_at) })]),
        t('undoesMerge', { noun, name: title }),
      ]),
      action: `${path}/${id}/unmerge`,
      hidden: [{ name: 'from', value: from }],
      submit: t('undoMerge'),
      isSafe: true,
      cancel: `${path}/${id}`,
    },
    { problem: rejection && messageIn(rejection, language) },
  );
}

/**
 * Returns the IDs of the record that remains and of the other one.
 * @throws HttpError 400 unless two records are selected, or 403 if the member cannot merge them
 */
function selectedPair({ resource, calls }: DataRequest, form: Form): readonly [string, string] {
  for (const action of neededActions)
    if (!calls.allows(resource, action)) throw errors.forbidden(resource.name, action);
  const [id, from, ...more] = [...new Set(fields(form, 'id'))].filter(isRecordId);
  if (id === undefined || from === undefined || more.length > 0)
    throw errors.invalidItem(`Select exactly two ${resourceWords(resource, 'en')} to merge them.`);
  return [id, from];
}

/** Sends the page with both records side by side. @param rejection why they could not be merged */
async function compareRecords(context: DataRequest, form: Form, rejection?: HttpError) {
  const { request, reply, resource, calls, titles, references, path, sendPage, language, t } = context;
  const [id, from] = selectedPair(context, form);
  const compared = resource.definition.fields.filter(
    ({ aliasOf, readOnly }) => aliasOf === undefined && !readOnly,
  );
  const expansion = references.expansion(calls, compared);
  // Read before the records are shown, so that a later change is noticed.
  const { tag } = await calls.read(resource, id);
  const [kept, other] = await Promise.all(
    [id, from].map(async (recordId) => {
      const { record } = await calls.read(resource, recordId, expansion);
      return { id: recordId, record, title: titles.of(resource, record) };
    }),
  );
  if (kept === undefined || other === undefined) throw errors.notFound();
  const people = await context.findPeople(userIds(resource, [kept.record, other.record]));
  const locale = localeOf(request);
  const at = returnQuery(field(form, 'at'));
  const back = returnUrl(context, form);
  const swapped = new URLSearchParams({ at });
  for (const value of [from, id]) swapped.append('id', value);
  const noun = resourceNoun(resource, language);
  const { trash } = resource.definition;
  if (rejection !== undefined) reply.code(rejection.status);
  return sendPage(
    {
      kind: 'confirm',
      title: t('mergeQuestion', { other: other.title, kept: kept.title }),
      above: { label: t('backToList'), href: back },
      consequence:
        trash === undefined
          ? t('mergeDeletes', { noun })
          : t('mergeTrashes', { noun, days: t('days', { count: trash.days }) }),
      links: [{ label: t('keepOther', { name: other.title }), href: `${path}/merge?${swapped}` }],
      comparison: {
        columns: [kept, other].map((side, index) => ({
          label:
            index === 0 ? t('first', { noun, name: side.title }) : t('second', { noun, name: side.title }),
          href: `${path}/${side.id}`,
        })),
        rows: compared
          .filter(({ name }) => [kept, other].some(({ record }) => !isBlank(record[name])))
          .map((comparedField) => {
            const isFilled = isBlank(kept.record[comparedField.name]);
            return {
              label: fieldLabel(comparedField),
              cells: [kept, other].map(({ record }, index) => ({
                ...displayValue(comparedField, record[comparedField.name], {
                  reference: referredValue(references, people, comparedField, record),
                  locale,
                }),
                isKept:
                  !isBlank(record[comparedField.name]) &&
                  (refersToMany(comparedField) || (index === 0) !== isFilled),
              })),
            };
          }),
      },
      action: `${path}/merge`,
      hidden: [...[id, from].map((value) => ({ name: 'id', value })), { name: 'tag', value: tag }],
      submit: t('merge', { records: resourceWords(resource, language) }),
      cancel: back,
    },
    { at, problem: rejection && messageIn(rejection, language) },
  );
}
