// Checks that pages are in German: their words are texts of the German catalogues.
import assert from 'node:assert/strict';
import { recordLabel, resourceLabel } from '../../engine/definition/index.ts';
import { fieldLabel } from '../../engine/fields/index.ts';
import { type Catalogue, catalogues } from '../../plugins/admin-ui/shell/catalogue.ts';
import { readable } from './forms.ts';
import type { Answer, Instance } from './instance.ts';

/** Returns a text's forms. */
const formsOfText = (text: Catalogue[string] | undefined): readonly string[] =>
  typeof text === 'string' ? [text] : Object.values(text ?? {}).map((form) => form ?? '');

/** Returns a pattern for a text on a page. A parameter matches any value. */
const patternOf = (form: string): RegExp =>
  new RegExp(
    `^${form
      .replace(/<\/?\w+>/g, '')
      .split(/\{\w*\}/)
      .map((part) => part.replace(/[.?()]/g, '\\$&'))
      .join('.+')}$`,
    'u',
  );

/** Returns whether a text has words of its own, unlike "{count}". */
const hasWords = (form: string): boolean => /\p{L}/u.test(form.replace(/\{\w*\}/g, ''));

/** Divides a text into sentences, because pages combine sentences. */
export const sentencesOf = (text: string): readonly string[] => text.split(/(?<=[.?!]) (?=\p{Lu})/u);

const germanForms = [...catalogues.values()]
  .flatMap(({ de }) => Object.values(de).flatMap(formsOfText))
  .flatMap((form) => [form, ...sentencesOf(form)])
  .filter(hasWords);
const germanTexts = germanForms.map(patternOf);

/** English texts that no German text equals. */
const englishTexts = [...catalogues.values()]
  .flatMap(({ en }) => Object.values(en).flatMap(formsOfText))
  .filter((form) => hasWords(form) && !germanForms.includes(form))
  .map(patternOf);

const isIn = (patterns: readonly RegExp[], text: string) => patterns.some((pattern) => pattern.test(text));

/** Returns the texts on a page that users can see, including texts in attributes. */
const visibleTexts = ({ text }: Pick<Answer, 'text'>): readonly string[] =>
  [
    ...text
      .replace(/<(script|style|option|kbd|time|textarea|pre)\b[\s\S]*?<\/\1>/g, '')
      .replace(/<\/?(?:strong|code)>/g, '')
      .split(/<[^>]*>/),
    ...[...text.matchAll(/\s(?:title|aria-label|placeholder|alt)="([^"]*)"/g)].flatMap(([, value = '']) =>
      value.split('\n'),
    ),
  ]
    .map((words) =>
      readable(words)
        .replace(/ – acme$/, '')
        .replace(/ \(\d+\)$/, '')
        .trim(),
    )
    .filter((words) => /\p{L}{2}/u.test(words));

/** Returns the texts in the definitions, and other names. They have the language of their authors. */
export const namesIn = (
  { resources }: Pick<Instance, 'resources'>,
  others: readonly string[],
): ReadonlySet<string> =>
  new Set(
    [
      ...others,
      ...resources.flatMap(({ definition }) => [
        ...[resourceLabel(definition), recordLabel(definition)],
        ...[definition.description, definition.help ?? ''],
        ...definition.fields.flatMap((field) => [
          ...[fieldLabel(field), field.description, field.help ?? ''],
          ...(field.values?.list ?? []),
        ]),
      ]),
    ].flatMap((name) => [name, ...sentencesOf(name)]),
  );

/**
 * Asserts that all words on a page are German texts or names, and that it has no English texts.
 * @param names texts in the language of their authors, for example labels of fields
 */
export function assertGerman(
  page: Pick<Answer, 'headers' | 'text'>,
  names: ReadonlySet<string> = new Set(),
): void {
  assert.equal(page.headers.get('content-language'), 'de');
  assert.match(page.text, /<html lang="de">/);
  // Exact times, the ends of secrets and URLs are values.
  const texts = visibleTexts(page).filter(
    (text) => !names.has(text) && !/ UTC$|^…\w+$|^https?:\/\/\S+$/.test(text),
  );
  assert.deepEqual(
    texts.filter((text) => isIn(englishTexts, text) && !isIn(germanTexts, text)),
    [],
    'English texts',
  );
  const isGerman = (text: string) =>
    isIn(germanTexts, text) ||
    sentencesOf(text).every((sentence) => names.has(sentence) || isIn(germanTexts, sentence));
  assert.deepEqual(
    texts.filter((text) => !isGerman(text)),
    [],
    'texts that are not in the German catalogues',
  );
}
