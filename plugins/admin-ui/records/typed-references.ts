import type { ResourceView } from '../../../engine/compile/index.ts';
import { type Field, refersToMany } from '../../../engine/fields/index.ts';
import type { Text } from '../shell/index.ts';
import type { Calls, DataRecord } from './calls.ts';
import { writable } from './inputs.ts';
import type { DataRequest } from './routes.ts';
import { unlessMissing } from './unless.ts';
import { resourceNoun, resourceWords, textOf } from './values.ts';

/** Number of records suggested for each reference. */
const maxSuggestions = 40;

/** Returns the inputs for references to single records. */
export const referenceInputs = (resource: ResourceView): readonly Field[] =>
  writable(resource).filter((field) => field.type.refers === true && !refersToMany(field));

/** Returns a resource's first records, or the first search matches. */
export async function firstMatches(
  calls: Calls,
  resource: ResourceView,
  q: string | undefined,
): Promise<readonly DataRecord[]> {
  const matches: DataRecord[] = [];
  for (let page = 1; matches.length < maxSuggestions; page++) {
    const { items, next } = await calls.list(resource, {
      page: String(page),
      ...(q !== undefined && { q }),
    });
    matches.push(...items);
    if (next === undefined) break;
  }
  return matches;
}

/** Thrown if a typed name does not identify exactly one record. */
export class UnresolvedReference extends Error {
  readonly errors: ReadonlyMap<string, Text>;
  readonly searchTexts: ReadonlyMap<string, string>;
  constructor(errors: ReadonlyMap<string, Text>, searchTexts: ReadonlyMap<string, string>) {
    super('ambiguous references');
    this.errors = errors;
    this.searchTexts = searchTexts;
  }
}

/** A record before it is edited, with its values in the form. */
interface PreviousState {
  readonly record: DataRecord;
  readonly texts: Readonly<Record<string, string>>;
}

/**
 * Replaces the typed or selected references in a form with the IDs of the records that they identify.
 * @throws UnresolvedReference
 */
export async function resolveReferences(
  context: DataRequest,
  texts: Readonly<Record<string, string>>,
  before?: PreviousState,
): Promise<Readonly<Record<string, string>>> {
  const { resource, references } = context;
  const resolvedTexts: Record<string, string> = { ...texts };
  const problems = new Map<string, Text>();
  const searchTexts = new Map<string, string>();
  for (const reference of referenceInputs(resource)) {
    const { name } = reference;
    const text = (texts[name] ?? '').trim();
    const target = references.target(reference);
    if (text === '' || /^(?:(?:no\.|ID) )?-?\d+$/.test(text) || target === undefined) continue;
    const current = textOf(before?.record[name]);
    const match =
      text === before?.texts[name] ? { id: current } : await findMatch(context, target, text, current);
    if ('id' in match) resolvedTexts[name] = match.id;
    else {
      searchTexts.set(name, text.slice(0, 200));
      problems.set(name, match.problem);
    }
  }
  if (problems.size > 0) throw new UnresolvedReference(problems, searchTexts);
  return resolvedTexts;
}

/**
 * Finds the record that an entered string identifies. The ID in "Acme (12)" is only used if record 12 is
 * named Acme, because a record can also be named "Branch (2)".
 * @param current the field's current ID
 */
export async function findMatch(
  { calls, titles, language, t }: DataRequest,
  target: ResourceView,
  text: string,
  current: string,
): Promise<{ readonly id: string } | { readonly problem: Text }> {
  const hasTitle = (title: string) => (record: DataRecord) =>
    oneLine(titles.of(target, record)) === oneLine(title);
  const [, title = '', id] = /^(.*)\((\d{1,19})\)$/s.exec(text) ?? [];
  const canRead = calls.allows(target, 'read');
  const isSearched = calls.allows(target, 'list') && target.definition.search.length > 0;
  // The member cannot search for the name. The API reports an error if the string is not an ID.
  if (id === undefined && !isSearched) return { id: text };
  const matches = isSearched ? await firstMatches(calls, target, searchQuery(text)) : [];
  const exact = matches.filter(hasTitle(text));
  if (id !== undefined && canRead) {
    const record = await recordOf(calls, target, id);
    if (record !== undefined && hasTitle(title)(record)) {
      return exact.length === 0 ? { id } : { problem: t('ambiguousId', { id, text }) };
    }
  }
  // If the string contains an ID, partial matches are different records.
  const [match, ...others] = exact.length === 1 || id !== undefined ? exact : matches;
  if (match !== undefined && others.length === 0) return { id: textOf(match.id) };
  if (match !== undefined)
    return { problem: t('severalMatch', { records: resourceWords(target, language) }) };
  // The member cannot read the name, or another user has changed it since the form was opened.
  if (id !== undefined && (!canRead || id === current)) return { id };
  return { problem: t('noneFound', { noun: resourceNoun(target, language) }) };
}

/** Converts a string to a search query that the API accepts. */
export const searchQuery = (text: string): string =>
  text.slice(0, 200).toWellFormed().replaceAll('\0', ' ').split(/\s+/).slice(0, 8).join(' ');

/** Normalizes a title in the same way as an input field, and converts it to lowercase. */
const oneLine = (title: string): string =>
  title
    .replace(/[\r\n]/g, '')
    .trim()
    .toLowerCase();

async function recordOf(calls: Calls, resource: ResourceView, id: string): Promise<DataRecord | undefined> {
  return (await unlessMissing(() => calls.read(resource, id)))?.record;
}
