import { HttpError } from '../../../engine/errors.ts';
import { type Field, fieldLabel } from '../../../engine/fields/index.ts';
import type { Body } from '../../../engine/records/index.ts';
import {
  type Form,
  type FormPage,
  field,
  ownWords,
  redirectDone,
  returnQuery,
  type Text,
} from '../shell/index.ts';
import { assertAllowed, feedbackOf, suggestionsFor } from './form-state.ts';
import { bodyOf, type FormState, formInputs, submittedTexts, writable } from './inputs.ts';
import { type DataRequest, type DataRoutes, returnUrl } from './routes.ts';
import { selectedIds } from './selected-ids.ts';
import { resolveReferences } from './typed-references.ts';
import { transactionOf, undoablePosition } from './undo.ts';
import { countNoun } from './values.ts';

/** Registers the forms that write a value to several records: one that chooses the field, and one for its value. */
export function bulkEditPages({ get, post }: DataRoutes): void {
  get('/edit', async (context) => {
    const form = context.request.query as Form;
    if (selectedIds(form).length === 0) return context.reply.redirect(returnUrl(context, form), 303);
    return sendForm(context, form);
  });
  post('/edit', async (context) => {
    const { request, reply, resource, calls, language, t } = context;
    const form = (request.body ?? {}) as Form;
    const ids = selectedIds(form);
    if (ids.length === 0) return reply.redirect(returnUrl(context, form), 303);
    const only = chosenField(context, form);
    if (only === undefined || field(form, 'step') === 'field') return sendForm(context, form);
    const { name } = only;
    const texts = { [name]: submittedTexts(resource, form)[name] ?? '' };
    try {
      const body = { [name]: bodyOf(resource, await resolveReferences(context, texts))[name] ?? null };
      const { updated, failed } = await calls.patchMany(resource, ids, body);
      const [first = await updateOne(context, ids[0] ?? '', body)] = updated;
      const change = await undoablePosition(context, first);
      return redirectDone(
        request,
        reply,
        returnUrl(context, form),
        failed === 0 ? 'records-updated' : 'records-updated-partly',
        {
          name: countNoun(resource, Math.max(updated.length, 1), language),
          change: change && transactionOf(change),
        },
      );
    } catch (error) {
      if (error instanceof HttpError && error.status === 404) {
        reply.code(404);
        return sendForm(context, form, { problem: t('noneUpdated') });
      }
      const { more, problem } = await feedbackOf(context, error, texts, { only: name });
      return sendForm(context, form, { problem, state: { texts, ...more } });
    }
  });
}

/** Updates a record, to find out why a write of several records updated none of them. @throws HttpError the reason */
async function updateOne({ resource, calls }: DataRequest, id: string, body: Body): Promise<string> {
  const { tag } = await calls.readWhole(resource, id);
  await calls.patch(resource, id, tag, body);
  return id;
}

/** Returns the fields whose values can be written to several records: the writable ones that can have equal values. */
const editable = ({ resource }: DataRequest): readonly Field[] =>
  writable(resource).filter(({ unique }) => !unique);

const chosenField = (context: DataRequest, form: Form): Field | undefined =>
  editable(context).find(({ name }) => name === field(form, 'field'));

/** Sends the form for the chosen field or, without one, the form that chooses it. */
async function sendForm(
  context: DataRequest,
  form: Form,
  rejected?: { readonly problem: string; readonly state?: FormState },
): Promise<string> {
  assertAllowed(context, 'update');
  const { resource, path, language, t } = context;
  const ids = selectedIds(form);
  const chosen = chosenField(context, form);
  const records = countNoun(resource, ids.length, language);
  const back = returnUrl(context, form);
  const page = {
    kind: 'form' as const,
    title: t('edit', { name: records }),
    above: { label: t('backToList'), href: back },
    action: `${path}/edit`,
    hidden: [
      ...(chosen === undefined ? [] : [{ name: 'field', value: chosen.name }]),
      ...ids.map((value) => ({ name: 'id', value })),
    ],
    cancel: back,
  };
  const more = { at: returnQuery(field(form, 'at')), problem: rejected?.problem };
  return context.sendPage(
    chosen === undefined
      ? { ...page, inputs: [fieldInput(context)], submit: t('continue'), step: 'field' }
      : {
          ...page,
          inputs: await valueInputs(context, chosen, rejected?.state),
          submit: t('save', { name: records }),
        },
    more,
  );
}

/** Returns the choice of the field. */
const fieldInput = (context: DataRequest): FormPage<Text>['inputs'][number] => ({
  kind: 'choice',
  name: 'field',
  label: context.t('field'),
  required: true,
  focus: true,
  options: editable(context).map((option) => ({ value: option.name, label: ownWords(fieldLabel(option)) })),
});

/** Returns the input for the value of a field. It is blank, because the records' values can differ. */
async function valueInputs(
  context: DataRequest,
  chosen: Field,
  rejected?: FormState,
): Promise<FormPage<Text>['inputs']> {
  const state = rejected ?? { texts: {}, ...(await suggestionsFor(context, { only: chosen.name })) };
  return formInputs(context.resource, { ...state, isForSeveral: true }, context.t)
    .filter(({ name }) => name === chosen.name)
    .map((input) => ({ ...input, focus: true }));
}
