import { randomUUID } from 'node:crypto';
import { resourceLabel } from '../../../engine/definition/index.ts';
import { HttpError } from '../../../engine/errors.ts';
import { isAssignable, linksOf, refersToMany } from '../../../engine/fields/index.ts';
import { type Form, type FormPage, field, redirectDone, type Text } from '../shell/index.ts';
import type { DataRecord } from './calls.ts';
import { createOnce, formKey } from './create-once.ts';
import { assertAllowed, feedbackOf, readStored, saveEdit, suggestionsFor } from './form-state.ts';
import { bodyOf, type FormState, formInputs, submittedTexts, writable } from './inputs.ts';
import { sameList } from './neighbors.ts';
import { showRecord } from './record-pages.ts';
import { type DataRequest, type DataRoutes, deletionOf, returnUrl } from './routes.ts';
import { resolveReferences } from './typed-references.ts';
import { undoablePosition } from './undo.ts';
import { editedField, valueForm } from './value-form.ts';
import { isRecordId, resourceNoun, textOf, valueText } from './values.ts';

/** Registers the forms that create and edit a record. */
export function editPages({ get, post }: DataRoutes): void {
  get('/new', async (context) => {
    assertAllowed(context, 'create');
    const feedback = await suggestionsFor(context);
    return context.sendPage(
      await createForm(
        context,
        { texts: { ...initialTexts(context), ...(await givenReferences(context)) }, ...feedback },
        randomUUID(),
      ),
    );
  });

  post('/new', async (context) => {
    const { request, reply, resource, calls, titles, path, language, t } = context;
    const form = (request.body ?? {}) as Form;
    const texts = submittedTexts(resource, form);
    // A form that is submitted twice creates only one record.
    const key = formKey(form);
    if (isUntouched(context, texts) && field(form, 'step') !== 'empty') {
      const feedback = await suggestionsFor(context);
      const page = await createForm(context, { texts, ...feedback }, key);
      const noun = resourceNoun(resource, language);
      reply.code(400);
      return context.sendPage(
        { ...page, also: [{ label: t('createEmpty', { noun }), value: 'empty' }] },
        { problem: t('noValues', { noun }) },
      );
    }
    try {
      const resolvedTexts = await resolveReferences(context, texts);
      const record = await createOnce(calls, resource, key, bodyOf(resource, resolvedTexts));
      return redirectDone(request, reply, `${path}/${textOf(record.id)}`, 'record-created', {
        name: titles.of(resource, record),
      });
    } catch (error) {
      const { more, problem } = await feedbackOf(context, error, texts);
      // If the user went back and changed the values, a second record is intended. The user must confirm it, because
      // the first record exists.
      const isKeyReused = error instanceof HttpError && error.code === 'idempotency_key_reused';
      return context.sendPage(
        await createForm(context, { texts, ...more }, isKeyReused ? randomUUID() : key),
        {
          problem: isKeyReused ? t('alreadySubmitted') : problem,
        },
      );
    }
  });

  get('/:id/edit', async (context) => {
    assertAllowed(context, 'update');
    const { record, tag, texts } = await readStored(context);
    return context.sendPage(
      await editForm(context, record, { texts, ...(await suggestionsFor(context, { record })) }, tag),
    );
  });

  post('/:id/edit', async (context) => {
    const { request, reply, resource, titles, path } = context;
    const { id } = request.params as { id: string };
    const form = (request.body ?? {}) as Form;
    const only = editedField(context, field(form, 'field'))?.name;
    const stored = await readStored(context);
    const submitted = submittedTexts(resource, form, stored.texts);
    const texts =
      only === undefined
        ? submitted
        : { ...stored.texts, [only]: submitted[only] ?? stored.texts[only] ?? '' };
    const result = await saveEdit(context, { tag: field(form, 'tag'), texts, stored, only });
    if (result.isSaved) {
      const { record, isChanged } = result;
      // A cell of a list is edited without leaving the list.
      const isInList = field(form, 'from') === 'list';
      return redirectDone(
        request,
        reply,
        isInList ? returnUrl(context, form) : `${path}/${id}${sameList(context)}`,
        isChanged ? 'record-saved' : 'record-same',
        {
          name: titles.of(resource, record),
          id,
          ...(isChanged && { change: await undoablePosition(context, id) }),
        },
      );
    }
    const { state, tag, problem } = result;
    if (only !== undefined)
      return showRecord(context, { form: valueForm(context, { only, stored, state, tag }), problem });
    return context.sendPage(await editForm(context, stored.record, state, tag), { problem });
  });
}

/** Returns the values of an empty form: the defaults, and the member as the owner. */
const initialTexts = ({ resource, member }: DataRequest): Readonly<Record<string, string>> =>
  Object.fromEntries(
    writable(resource).map((formField) => [
      formField.name,
      isAssignable(formField)
        ? member.person.session.user.id
        : formField.default === 0
          ? ''
          : valueText(formField, formField.default),
    ]),
  );

/** Returns the references in the URL, with the titles of the records, for forms that add a record to another one. */
async function givenReferences({
  request,
  resource,
  calls,
  references,
  titles,
}: DataRequest): Promise<Readonly<Record<string, string>>> {
  const query = request.query as Form;
  const given = writable(resource).map(async (formField): Promise<readonly [string, string][]> => {
    const text = field(query, formField.name);
    if (text === '' || refersToMany(formField)) return [];
    for (const link of linksOf(formField)) {
      const target = references.target(link);
      const prefix = link.alternativeOf === undefined ? '' : `${target?.name}/`;
      const id = text.slice(prefix.length);
      if (target === undefined || !text.startsWith(prefix) || !isRecordId(id)) continue;
      if (!calls.allows(target, 'read')) return [];
      const { record } = await calls.read(target, id);
      return [[formField.name, `${titles.of(target, record)} (${text})`]];
    }
    return [];
  });
  return Object.fromEntries((await Promise.all(given)).flat());
}

/** Returns whether a submitted form for a new record contains only blank and default values. */
function isUntouched(context: DataRequest, texts: Readonly<Record<string, string>>): boolean {
  const initial = initialTexts(context);
  return writable(context.resource).every((formField) => {
    const text = (texts[formField.name] ?? '').trim();
    const isUnchecked = formField.type.form.control === 'checkbox' && text === 'false';
    return text === '' || text === initial[formField.name] || isUnchecked;
  });
}

const createForm = async (
  { resource, path, language, t }: DataRequest,
  state: FormState,
  key: string,
): Promise<FormPage<Text> & { readonly kind: 'form' }> => ({
  kind: 'form',
  title: t('create', { name: resourceNoun(resource, language) }),
  above: { label: resourceLabel(resource.definition), href: path },
  action: `${path}/new`,
  hidden: [{ name: 'key', value: key }],
  inputs: formInputs(resource, state, t),
  submit: t('create', { name: resourceNoun(resource, language) }),
  cancel: path,
});

const editForm = async (
  context: DataRequest,
  record: DataRecord,
  state: FormState,
  tag: string,
): Promise<FormPage<Text> & { readonly kind: 'form' }> => {
  const { request, resource, path, titles, language, t } = context;
  const { id } = request.params as { id: string };
  const title = titles.of(resource, record);
  return {
    kind: 'form',
    title: t('edit', { name: title }),
    above: { label: title, href: `${path}/${id}${sameList(context)}` },
    action: `${path}/${id}/edit${sameList(context)}`,
    hidden: [{ name: 'tag', value: tag }],
    inputs: formInputs(resource, { ...state, stored: record }, t),
    submit: t('save', { name: resourceNoun(resource, language) }),
    cancel: `${path}/${id}${sameList(context)}`,
    danger: deletionOf(context, id),
  };
};
