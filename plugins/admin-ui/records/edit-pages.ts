import { randomUUID } from 'node:crypto';
import { errors, HttpError } from '../../../engine/errors.ts';
import { isAssignable, refersToUser } from '../../../engine/fields/index.ts';
import { personLine } from '../../access/identity/index.ts';
import { type Form, type FormPage, field, redirectDone } from '../shell/index.ts';
import type { Calls, DataRecord } from './calls.ts';
import { createOnce } from './create-once.ts';
import {
  bodyOf,
  changesOf,
  type FormState,
  formInputs,
  recordTexts,
  submittedTexts,
  writable,
} from './inputs.ts';
import { type DataRequest, type DataRoutes, deletionOf } from './routes.ts';
import { firstMatches, referenceInputs, resolveReferences, UnresolvedReference } from './typed-references.ts';
import { humanize, resourceNoun, textOf } from './values.ts';

const keyReusedText =
  'You already submitted this form, and a record was created with the previous values. Submit it again to create another record with these values, or cancel.';

/** Registers the forms that create and edit a record. */
export function editPages({ get, post }: DataRoutes): void {
  get('/new', async (context) => {
    const { resource, calls, member } = context;
    assertAllowed(context, 'create');
    const empty = Object.fromEntries(
      writable(resource).map((formField) => [
        formField.name,
        isAssignable(formField)
          ? member.person.session.user.id
          : formField.default === 0
            ? ''
            : textOf(formField.default),
      ]),
    );
    return context.sendPage(
      await createForm(context, { texts: empty, ...(await suggestionsFor(context, calls)) }, randomUUID()),
    );
  });

  post('/new', async (context) => {
    const { request, reply, resource, calls, titles, path } = context;
    const form = (request.body ?? {}) as Form;
    const texts = submittedTexts(resource, form);
    // A form that is submitted twice creates only one record.
    const key =
      field(form, 'key')
        .slice(0, 100)
        .replace(/[^\w-]/g, '') || randomUUID();
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
          problem: isKeyReused ? keyReusedText : problem,
        },
      );
    }
  });

  get('/:id/edit', async (context) => {
    assertAllowed(context, 'update');
    const { record, tag, texts } = await readStored(context);
    return context.sendPage(
      await editForm(
        context,
        record,
        { texts, ...(await suggestionsFor(context, context.calls, undefined, record)) },
        tag,
      ),
    );
  });

  post('/:id/edit', async (context) => {
    const { request, reply, resource, calls, titles, path } = context;
    const { id } = request.params as { id: string };
    const form = (request.body ?? {}) as Form;
    const tag = field(form, 'tag');
    const { record, tag: currentTag, texts: storedTexts } = await readStored(context);
    const texts = submittedTexts(resource, form, storedTexts);
    try {
      const resolvedTexts = await resolveReferences(context, texts, { record, texts: storedTexts });
      // After a concurrent change, the form's values cannot be compared with the stored values, so all values are sent.
      const changes =
        tag === currentTag ? changesOf(resource, resolvedTexts, record) : bodyOf(resource, resolvedTexts);
      if (tag === currentTag && Object.keys(changes).length === 0)
        return redirectDone(request, reply, `${path}/${id}`, 'record-same', {
          name: titles.of(resource, record),
        });
      const saved = await calls.patch(resource, id, tag, changes);
      return redirectDone(request, reply, `${path}/${id}`, 'record-saved', {
        name: titles.of(resource, saved),
      });
    } catch (error) {
      const { more, problem } = await feedbackOf(context, error, texts, record);
      const isConflict = error instanceof HttpError && error.status === 412;
      const concurrent = new Map(
        isConflict
          ? Object.entries(storedTexts).filter(
              ([name, text]) => text.replaceAll('\r\n', '\n') !== texts[name]?.replaceAll('\r\n', '\n'),
            )
          : [],
      );
      const page = await editForm(
        context,
        record,
        { texts, ...more, concurrent },
        isConflict ? currentTag : tag,
      );
      const conflictText =
        'Someone else has changed this record since you opened it. The current value is shown below each field that differs. Save again to overwrite the current values, or cancel.';
      return context.sendPage(page, { problem: isConflict ? conflictText : problem });
    }
  });
}

/** Checks the permission before showing a form, with the same rule as the API. */
function assertAllowed({ calls, resource }: DataRequest, action: 'create' | 'update'): void {
  if (!calls.allows(resource, action))
    throw errors.notPermitted(`Your profile does not grant ${action} on ${resource.name}.`);
}

/** Reads a record and the values for its form. */
async function readStored({ request, resource, calls, references }: DataRequest) {
  const { id } = request.params as { id: string };
  const { record, tag } = await calls.readWhole(resource, id);
  const expansion = references.expansion(calls, resource.definition.fields);
  const expanded =
    expansion.expand === undefined ? record : (await calls.read(resource, id, expansion)).record;
  const titlesByField = new Map(
    resource.definition.fields.flatMap((formField): [string, string][] => {
      const title = references.title(formField, expanded);
      return title === undefined ? [] : [[formField.name, title]];
    }),
  );
  return { record, tag, texts: recordTexts(resource, record, titlesByField) };
}

type FormFeedback = Omit<FormState, 'texts'>;
const noFeedback: FormFeedback = {
  errors: new Map(),
  concurrent: new Map(),
  suggestions: new Map(),
  choices: new Map(),
};

/**
 * Suggests records for each reference whose resource the member can list. Suggests search matches or, without
 * a search string, the first records.
 */
async function suggestionsFor(
  context: DataRequest,
  calls: Calls,
  searchTexts: ReadonlyMap<string, string> = new Map(),
  record: DataRecord = {},
): Promise<FormFeedback> {
  const { resource, references, titles } = context;
  const suggestions = new Map<string, readonly string[]>();
  for (const reference of referenceInputs(resource)) {
    const target = references.target(reference);
    if (target === undefined || !calls.allows(target, 'list')) continue;
    const q = target.definition.search.length > 0 ? searchTexts.get(reference.name) : undefined;
    const records = await firstMatches(calls, target, q);
    suggestions.set(
      reference.name,
      records.map((record) => `${titles.of(target, record)} (${textOf(record.id)})`),
    );
  }
  return { ...noFeedback, suggestions, choices: await choicesFor(context, record) };
}

/** Lists the members who can be selected in each field for users, and the record's current user if they have left. */
async function choicesFor(
  { resource, listMembers, findPeople }: DataRequest,
  record: DataRecord,
): Promise<FormFeedback['choices']> {
  const users = writable(resource).filter(refersToUser);
  if (users.length === 0) return new Map();
  const members = await listMembers();
  const currentIds = users.map(({ name }) => textOf(record[name])).filter((id) => id !== '');
  const people = await findPeople(currentIds.filter((id) => members.every((member) => member.id !== id)));
  return new Map(
    users.map(({ name }) => {
      const former = people.get(textOf(record[name]));
      return [
        name,
        [
          { value: '', label: 'Nobody' },
          ...members.map((member) => ({ value: member.id, label: personLine(member) })),
          ...(former === undefined
            ? []
            : [{ value: former.id, label: `${personLine(former)}, former member` }]),
        ],
      ];
    }),
  );
}

/**
 * Sets the response status for a rejected form, and returns the form's errors and suggestions.
 * @throws the same error if the form did not cause it
 */
async function feedbackOf(
  context: DataRequest,
  error: unknown,
  texts: Readonly<Record<string, string>>,
  record?: DataRecord,
) {
  if (error instanceof UnresolvedReference) {
    context.reply.code(400);
    const more = await suggestionsFor(context, context.calls, error.searchTexts, record);
    return { more: { ...more, errors: error.errors }, problem: 'Some fields are invalid.' };
  }
  if (!(error instanceof HttpError) || ![400, 409, 412, 422].includes(error.status)) throw error;
  context.reply.code(error.status);
  const { fields = [] } = error.extra;
  const fieldErrors = new Map(
    fields
      .filter(({ field: name }) => Object.hasOwn(texts, name))
      .map((issue) => [issue.field, issue.message]),
  );
  const more = await suggestionsFor(context, context.calls, undefined, record);
  return {
    more: { ...more, errors: fieldErrors },
    problem: fieldErrors.size > 0 ? 'Some fields are invalid.' : error.message,
  };
}

const createForm = async (
  { resource, path }: DataRequest,
  state: FormState,
  key: string,
): Promise<FormPage & { readonly kind: 'form' }> => ({
  kind: 'form',
  title: `Create ${resourceNoun(resource)}`,
  above: { label: humanize(resource.name), href: path },
  action: `${path}/new`,
  hidden: [{ name: 'key', value: key }],
  inputs: formInputs(resource, state),
  submit: `Create ${resourceNoun(resource)}`,
  cancel: path,
});

const editForm = async (
  context: DataRequest,
  record: DataRecord,
  state: FormState,
  tag: string,
): Promise<FormPage & { readonly kind: 'form' }> => {
  const { request, resource, path, titles } = context;
  const { id } = request.params as { id: string };
  const title = titles.of(resource, record);
  return {
    kind: 'form',
    title: `Edit ${title}`,
    above: { label: title, href: `${path}/${id}` },
    action: `${path}/${id}/edit`,
    hidden: [{ name: 'tag', value: tag }],
    inputs: formInputs(resource, { ...state, stored: record }),
    submit: `Save ${resourceNoun(resource)}`,
    cancel: `${path}/${id}`,
    danger: deletionOf(context, id),
  };
};
