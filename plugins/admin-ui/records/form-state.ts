import { HttpError } from '../../../engine/errors.ts';
import { linksOf, namesMember, refersToMany } from '../../../engine/fields/index.ts';
import { personLine } from '../../access/identity/index.ts';
import { ForbiddenError, issueMessageIn, messageIn } from '../shell/index.ts';
import type { DataRecord } from './calls.ts';
import { bodyOf, changesOf, type FormState, type Option, recordTexts, writable } from './inputs.ts';
import type { DataRequest } from './routes.ts';
import { recordsTexts } from './texts/index.ts';
import { firstMatches, referenceInputs, resolveReferences, UnresolvedReference } from './typed-references.ts';
import { textOf } from './values.ts';

const { later } = recordsTexts;

/** Checks the permission before showing a form, with the same rule as the API. */
export function assertAllowed({ calls, resource }: DataRequest, action: 'create' | 'update'): void {
  if (!calls.allows(resource, action))
    throw new ForbiddenError(later('notGranted', { action, object: resource.name }));
}

/** Reads a record and the values for its form. */
export async function readStored({ request, resource, calls, references }: DataRequest) {
  const { id } = request.params as { id: string };
  const { record, tag } = await calls.readWhole(resource, id);
  const expansion = references.expansion(calls, resource.definition.fields);
  const expanded =
    expansion.expand === undefined ? record : (await calls.read(resource, id, expansion)).record;
  const titlesByField = new Map(
    resource.definition.fields.flatMap((formField): [string, string][] => {
      const title = refersToMany(formField) ? undefined : references.title(formField, expanded);
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
  checkable: new Map(),
};

/** The record for which a form is shown. */
interface FormSubject {
  readonly record?: DataRecord;
  /** The form's only field. Default: all fields. */
  readonly only?: string | undefined;
}

/**
 * Suggests records for each reference whose resource the member can list. Suggests search matches or, without
 * a search string, the first records.
 */
export async function suggestionsFor(
  context: DataRequest,
  { record = {}, only }: FormSubject = {},
  searchTexts: ReadonlyMap<string, string> = new Map(),
): Promise<FormFeedback> {
  const { resource, calls, references, titles } = context;
  const suggestions = new Map<string, readonly string[]>();
  for (const reference of referenceInputs(resource)) {
    if (only !== undefined && reference.name !== only) continue;
    const options: string[] = [];
    for (const link of linksOf(reference)) {
      const target = references.target(link);
      if (target === undefined || !calls.allows(target, 'list')) continue;
      const q = target.definition.search.length > 0 ? searchTexts.get(reference.name) : undefined;
      const records = await firstMatches(calls, target, q);
      const prefix = link.alternativeOf === undefined ? '' : `${target.name}/`;
      options.push(
        ...records.map((record) => `${titles.of(target, record)} (${prefix}${textOf(record.id)})`),
      );
      suggestions.set(reference.name, options);
    }
  }
  return {
    ...noFeedback,
    suggestions,
    choices: await choicesFor(context, record),
    checkable: await checkableFor(context, { record, only }),
    ...(record.id !== undefined && { scopes: await calls.transitionScopes(resource, textOf(record.id)) }),
  };
}

/** Lists the records that can be checked in each list of references: the record's current ones and the first others. */
async function checkableFor(
  { resource, calls, references, titles }: DataRequest,
  { record = {}, only }: FormSubject,
): Promise<FormFeedback['checkable']> {
  const lists = writable(resource).filter(
    (formField) => refersToMany(formField) && (only === undefined || formField.name === only),
  );
  if (lists.length === 0) return new Map();
  const expansion = references.expansion(calls, lists);
  const expanded =
    record.id === undefined || expansion.expand === undefined
      ? {}
      : (await calls.read(resource, textOf(record.id), expansion)).record;
  const entries = lists.map(async (list): Promise<[string, readonly Option[]]> => {
    const target = references.target(list);
    if (target === undefined) return [list.name, []];
    const others = calls.allows(target, 'list') ? await firstMatches(calls, target, undefined) : [];
    const options = [...references.records(list, expanded), ...others].map((item) => ({
      value: textOf(item.id),
      label: titles.of(target, item),
    }));
    return [list.name, [...new Map(options.map((option) => [option.value, option])).values()]];
  });
  return new Map(await Promise.all(entries));
}

/** Returns whether a stored value differs from a submitted value. Browsers submit other line breaks. */
const differs = (a: string, b = ''): boolean => a.replaceAll('\r\n', '\n') !== b.replaceAll('\r\n', '\n');

/** Lists the members who can be selected in each field for users, and the record's current user if they have left. */
async function choicesFor(
  { resource, listMembers, findPeople, t }: DataRequest,
  record: DataRecord,
): Promise<FormFeedback['choices']> {
  const users = writable(resource).filter(namesMember);
  if (users.length === 0) return new Map();
  const members = await listMembers();
  const currentIds = users.map(({ name }) => textOf(record[name])).filter((id) => id !== '');
  const people = await findPeople(currentIds.filter((id) => members.every((member) => member.id !== id)));
  return new Map(
    users.map(({ name, required }) => {
      const former = people.get(textOf(record[name]));
      return [
        name,
        [
          { value: '', label: required ? t('chooseMember') : t('nobody') },
          ...members.map((member) => ({ value: member.id, label: personLine(member) })),
          ...(former === undefined
            ? []
            : [{ value: former.id, label: t('formerMember', { person: personLine(former) }) }]),
        ],
      ];
    }),
  );
}

/**
 * Sets the response status for a rejected form, and returns the form's errors and suggestions.
 * @throws the same error if the form did not cause it
 */
export async function feedbackOf(
  context: DataRequest,
  error: unknown,
  texts: Readonly<Record<string, string>>,
  subject: FormSubject = {},
) {
  if (error instanceof UnresolvedReference) {
    context.reply.code(400);
    const more = await suggestionsFor(context, subject, error.searchTexts);
    return { more: { ...more, errors: error.errors }, problem: context.t('someInvalid') };
  }
  if (!(error instanceof HttpError) || ![400, 409, 412, 422].includes(error.status)) throw error;
  context.reply.code(error.status);
  const { language } = context;
  const { fields = [] } = error.extra;
  const fieldErrors = new Map(
    fields
      // The names in errors about lists contain a position.
      .map((issue) => [issue.field.replace(/\[\d+\]$/, ''), issueMessageIn(issue, language)] as const)
      .filter(([name]) => Object.hasOwn(texts, name)),
  );
  const more = await suggestionsFor(context, subject);
  return {
    more: { ...more, errors: fieldErrors },
    problem: fieldErrors.size > 0 ? context.t('someInvalid') : messageIn(error, language),
  };
}

/** A form that edits an existing record, with the values that the user submitted. */
interface SubmittedEdit {
  /** The record's entity tag when the form was opened. */
  readonly tag: string;
  readonly texts: Readonly<Record<string, string>>;
  /** The record's current state. */
  readonly stored: Awaited<ReturnType<typeof readStored>>;
  /** The form's only field. Default: all fields. */
  readonly only?: string | undefined;
}

/** The saved record, or the state in which to show a rejected form again. */
type EditResult =
  | { readonly isSaved: true; readonly record: DataRecord; readonly isChanged: boolean }
  | {
      readonly isSaved: false;
      readonly state: FormState;
      readonly tag: string;
      readonly problem: string;
    };

/**
 * Saves an edited record if no one else has changed it since the form was opened.
 * @throws the error that prevented it, unless the submitted values caused it
 */
export async function saveEdit(
  context: DataRequest,
  { tag, texts, stored, only }: SubmittedEdit,
): Promise<EditResult> {
  const { resource, calls, request } = context;
  const { id } = request.params as { id: string };
  const { record, tag: currentTag, texts: storedTexts } = stored;
  try {
    const resolvedTexts = await resolveReferences(context, texts, { record, texts: storedTexts });
    // After a concurrent change, the form's values cannot be compared with the stored values, so all values are sent.
    const body =
      tag === currentTag ? changesOf(resource, resolvedTexts, record) : bodyOf(resource, resolvedTexts);
    const changes = only === undefined || tag === currentTag ? body : { [only]: body[only] ?? null };
    if (tag === currentTag && Object.keys(changes).length === 0)
      return { isSaved: true, record, isChanged: false };
    return { isSaved: true, record: await calls.patch(resource, id, tag, changes), isChanged: true };
  } catch (error) {
    const { more, problem } = await feedbackOf(context, error, texts, { record, only });
    const isConflict = error instanceof HttpError && error.status === 412;
    const concurrent = Object.entries(isConflict ? storedTexts : {}).filter(([name, text]) =>
      differs(text, texts[name]),
    );
    return {
      isSaved: false,
      state: { texts, ...more, concurrent: new Map(concurrent) },
      tag: isConflict ? currentTag : tag,
      problem: isConflict ? context.t('conflict') : problem,
    };
  }
}
