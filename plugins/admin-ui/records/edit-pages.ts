import { randomUUID } from 'node:crypto';
import { HttpError } from '../../../engine/errors.ts';
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

const otherValues =
  'You already submitted this form, and a record was created with the previous values. Submit it again to create another record with these values, or cancel.';

/** Registers the forms that create and edit a record. */
export function editPages({ get, post }: DataRoutes): void {
  get('/new', async (asked) => {
    const { resource, calls } = asked;
    assertMay(asked, 'create');
    const empty = Object.fromEntries(
      writable(resource).map((each) => [each.name, each.default === 0 ? '' : textOf(each.default)]),
    );
    return asked.shown(
      await createForm(asked, { texts: empty, ...(await suggestionsFor(asked, calls)) }, randomUUID()),
    );
  });

  post('/new', async (asked) => {
    const { request, reply, resource, calls, titles, path } = asked;
    const form = (request.body ?? {}) as Form;
    const texts = submittedTexts(resource, form);
    // A form submitted twice creates one record.
    const key =
      field(form, 'key')
        .slice(0, 100)
        .replace(/[^\w-]/g, '') || randomUUID();
    try {
      const given = await resolveReferences(asked, texts);
      const record = await createOnce(calls, resource, key, bodyOf(resource, given));
      return redirectDone(request, reply, `${path}/${textOf(record.id)}`, 'record-created', {
        name: titles.of(resource, record),
      });
    } catch (error) {
      const { more, problem } = await refused(asked, error, texts);
      // A user who went back and changed the values wants a second record, but must confirm it because the first one exists.
      const isOther = error instanceof HttpError && error.code === 'idempotency_key_reused';
      return asked.shown(await createForm(asked, { texts, ...more }, isOther ? randomUUID() : key), {
        problem: isOther ? otherValues : problem,
      });
    }
  });

  get('/:id/edit', async (asked) => {
    assertMay(asked, 'update');
    const { record, tag, texts } = await stored(asked);
    return asked.shown(
      await editForm(asked, record, { texts, ...(await suggestionsFor(asked, asked.calls)) }, tag),
    );
  });

  post('/:id/edit', async (asked) => {
    const { request, reply, resource, calls, titles, path } = asked;
    const { id } = request.params as { id: string };
    const form = (request.body ?? {}) as Form;
    const tag = field(form, 'tag');
    const { record, tag: current, texts: now } = await stored(asked);
    const texts = submittedTexts(resource, form, now);
    try {
      const given = await resolveReferences(asked, texts, { record, texts: now });
      // After a concurrent change, the form's values cannot be compared with the stored ones, so all of them are sent.
      const changes = tag === current ? changesOf(resource, given, record) : bodyOf(resource, given);
      if (tag === current && Object.keys(changes).length === 0)
        return redirectDone(request, reply, `${path}/${id}`, 'record-same', {
          name: titles.of(resource, record),
        });
      const { body } = await calls.call(resource, 'patch', {
        id,
        body: changes,
        headers: { 'if-match': tag || '"none"' },
      });
      return redirectDone(request, reply, `${path}/${id}`, 'record-saved', {
        name: titles.of(resource, body),
      });
    } catch (error) {
      const { more, problem } = await refused(asked, error, texts);
      const isLate = error instanceof HttpError && error.status === 412;
      const concurrent = new Map(
        isLate
          ? Object.entries(now).filter(
              ([name, text]) => text.replaceAll('\r\n', '\n') !== texts[name]?.replaceAll('\r\n', '\n'),
            )
          : [],
      );
      const page = await editForm(asked, record, { texts, ...more, concurrent }, isLate ? current : tag);
      const late =
        'Someone else has changed this record since you opened it. The current value is shown below each field that differs. Save again to overwrite it, or cancel.';
      return asked.shown(page, { problem: isLate ? late : problem });
    }
  });
}

/** Checks the permission before showing a form, with the same rule as the API. */
function assertMay({ calls, resource }: DataRequest, action: 'create' | 'update'): void {
  if (!calls.may(resource, action))
    throw new HttpError(403, 'forbidden', `Your profile does not grant ${action} on ${resource.name}.`);
}

/** Reads a record with the texts for its form. */
async function stored({ request, resource, calls, references }: DataRequest) {
  const { id } = request.params as { id: string };
  const whole = await calls.call(resource, 'read', { id });
  const expand = references.expandable(calls, resource.definition.fields);
  const expanded =
    expand.length === 0
      ? whole
      : await calls.excerpt(resource, 'read', { id, query: { expand: expand.join() } });
  const named = new Map(
    resource.definition.fields.flatMap((each): [string, string][] => {
      const title = references.title(each, expanded.body);
      return title === undefined ? [] : [[each.name, title]];
    }),
  );
  return {
    record: whole.body,
    tag: whole.headers.etag ?? '',
    texts: recordTexts(resource, whole.body, named),
  };
}

type Refilled = Omit<FormState, 'texts'>;
const nothing: Refilled = { errors: new Map(), concurrent: new Map(), suggestions: new Map() };

/** Suggests records for each reference: search matches, or else the first records of each resource that the member can list. */
async function suggestionsFor(
  { resource, references, titles }: DataRequest,
  calls: Calls,
  searched: ReadonlyMap<string, string> = new Map(),
): Promise<Refilled> {
  const suggestions = new Map<string, readonly string[]>();
  for (const each of referenceInputs(resource)) {
    const to = references.target(each);
    if (to === undefined || !calls.may(to, 'list')) continue;
    const q = to.definition.search.length > 0 ? searched.get(each.name) : undefined;
    const records = await firstMatches(calls, to, q);
    suggestions.set(
      each.name,
      records.map((record) => `${titles.of(to, record)} (${textOf(record.id)})`),
    );
  }
  return { ...nothing, suggestions };
}

/** Returns the errors and suggestions of a rejected form. @throws the error itself if it does not concern the form */
async function refused(asked: DataRequest, error: unknown, texts: Readonly<Record<string, string>>) {
  if (error instanceof UnresolvedReference) {
    asked.reply.code(400);
    const more = await suggestionsFor(asked, asked.calls, error.searched);
    return { more: { ...more, errors: error.errors }, problem: 'Some fields are invalid.' };
  }
  if (!(error instanceof HttpError) || ![400, 409, 412, 422].includes(error.status)) throw error;
  asked.reply.code(error.status);
  const { fields = [] } = error.extra;
  const known = new Map(
    fields.filter(({ field: name }) => Object.hasOwn(texts, name)).map((each) => [each.field, each.message]),
  );
  const more = await suggestionsFor(asked, asked.calls);
  return {
    more: { ...more, errors: known },
    problem: known.size > 0 ? 'Some fields are invalid.' : error.message,
  };
}

const createForm = async (
  { resource, path }: DataRequest,
  filled: FormState,
  key: string,
): Promise<FormPage & { readonly kind: 'form' }> => ({
  kind: 'form',
  title: `Create ${resourceNoun(resource)}`,
  above: { label: humanize(resource.name), href: path },
  action: `${path}/new`,
  hidden: [{ name: 'key', value: key }],
  inputs: formInputs(resource, filled),
  submit: `Create ${resourceNoun(resource)}`,
  cancel: path,
});

const editForm = async (
  asked: DataRequest,
  record: DataRecord,
  filled: FormState,
  tag: string,
): Promise<FormPage & { readonly kind: 'form' }> => {
  const { request, resource, path, titles } = asked;
  const { id } = request.params as { id: string };
  const title = titles.of(resource, record);
  return {
    kind: 'form',
    title: `Edit ${title}`,
    above: { label: title, href: `${path}/${id}` },
    action: `${path}/${id}/edit`,
    hidden: [{ name: 'tag', value: tag }],
    inputs: formInputs(resource, { ...filled, stored: record }),
    submit: `Save ${resourceNoun(resource)}`,
    cancel: `${path}/${id}`,
    danger: deletionOf(asked, id),
  };
};
