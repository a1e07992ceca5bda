import type { Resource } from '../../../engine/compile/index.ts';
import { type Field, type FieldTypeName, jsonNumber } from '../../../engine/fields/index.ts';
import type { Body } from '../../../engine/records/index.ts';
import { type Form, field as fieldOf, type Input, typedTimestamp } from '../shell/index.ts';
import type { DataRecord } from './calls.ts';
import { cut, humanize, textOf } from './values.ts';

/** How a type of field is typed in, and what the typed text becomes; undefined for "absent". */
interface Typed {
  readonly kind: Input['kind'];
  readonly help?: string;
  readonly value: (text: string) => unknown;
}

const asText = (text: string): unknown => text;
const orNothing = (text: string): unknown => (text.trim() === '' ? undefined : text.trim());
// What is no number stays a text, which the API refuses in its words.
const asNumber = (text: string): unknown =>
  orNothing(text) === undefined ? undefined : (jsonNumber(text.trim()) ?? text);
/** A record's number, also as pages write it: "no. 12". */
const asReference = (text: string): unknown => asNumber(text.replace(/^no\. /, ''));
/** What is not a point in time stays a text, which the API rejects in its words. */
const asTimestamp = (text: string): unknown => typedTimestamp(text) ?? orNothing(text);

/** Every type of field has its input. */
const typed: Readonly<Record<FieldTypeName, Typed>> = {
  string: { kind: 'line', value: asText },
  text: { kind: 'lines', value: (text) => text.replaceAll('\r\n', '\n') },
  integer: { kind: 'number', value: asNumber },
  int64: { kind: 'number', value: asNumber },
  number: { kind: 'number', value: asNumber },
  boolean: { kind: 'checkbox', value: (text) => text === 'true' },
  timestamp: {
    kind: 'line',
    help: 'Such as 2026-03-01 09:30 +01:00; UTC where there is no offset.',
    value: asTimestamp,
  },
  date: { kind: 'day', value: orNothing },
  reference: {
    kind: 'suggestions',
    help: 'Choose from the list, or type a name or a number.',
    value: asReference,
  },
  joined: { kind: 'line', value: asText },
};

/** Characters of a value that a form edits: several such values fit into what a form may send. */
const longestInput = 50_000;

/** Whether a value is too long for a form. */
const isTooLong = (text: string): boolean => text.length > longestInput;

/** The fields that a form has: all that may be written. */
export const writable = ({ definition }: Resource): readonly Field[] =>
  definition.fields.filter(({ readOnly, aliasOf }) => !readOnly && aliasOf === undefined);

/** What a form is shown with. */
export interface FormState {
  /** Values as texts, by field. */
  readonly texts: Readonly<Record<string, string>>;
  /** What is wrong, by field. */
  readonly errors: ReadonlyMap<string, string>;
  /** What somebody else has written meanwhile, by field. */
  readonly meanwhile: ReadonlyMap<string, string>;
  /** Records that a reference may point to, by field. */
  readonly suggestions: ReadonlyMap<string, readonly string[]>;
  /** The record that is edited; absent: a new one. */
  readonly stored?: DataRecord;
}

/** The inputs of a form. */
export const formInputs = (
  resource: Resource,
  { texts, errors, meanwhile, suggestions, stored = {} }: FormState,
): Input[] =>
  writable(resource).map((field): Input => {
    const { kind, help } = typed[field.typeName];
    const text = texts[field.name] ?? '';
    const before = textOf(stored[field.name]);
    if (isTooLong(before)) {
      const help = `This value is longer than ${longestInput.toLocaleString('en')} characters and can only be changed through the API.`;
      const error = errors.get(field.name);
      return {
        kind: 'fixed',
        name: field.name,
        label: humanize(field.name),
        value: cut(before, 300),
        help,
        error,
      };
    }
    const now = meanwhile.get(field.name);
    const known = suggestions.get(field.name) ?? field.values?.list;
    const notes = [
      field.description,
      help,
      now === undefined ? undefined : `It is now: ${now === '' ? 'empty' : cut(now, 300)}`,
    ];
    return {
      // A known value is proposed, any other is accepted as the API does.
      kind: known === undefined ? (kind === 'suggestions' ? 'number' : kind) : 'suggestions',
      name: field.name,
      label: humanize(field.name),
      value: text,
      checked: text === 'true',
      required: field.required,
      ...(field.maxLength !== undefined && { maxLength: field.maxLength }),
      help: notes.filter((note) => note !== undefined && note !== '').join(' ') || undefined,
      error: errors.get(field.name),
      ...(known !== undefined && { options: known.map((value) => ({ value, label: '' })) }),
    };
  });

/** The texts of a record, as a form has them. @param titles of the records that it refers to, by field */
export const recordTexts = (
  resource: Resource,
  record: DataRecord,
  titles: ReadonlyMap<string, string> = new Map(),
): Record<string, string> =>
  Object.fromEntries(
    writable(resource).map(({ name }) => {
      const text = textOf(record[name]);
      const title = titles.get(name);
      return [name, title === undefined || text === '' ? text : `${title} (${text})`];
    }),
  );

/**
 * The texts of a sent form. A box that is not ticked is not sent.
 * @param stored those of the record before: what is too long for a form is not in it, and stays
 */
export const submittedTexts = (
  resource: Resource,
  form: Form,
  stored: Readonly<Record<string, string>> = {},
): Record<string, string> =>
  Object.fromEntries(
    writable(resource).map(({ name, typeName }) => {
      const before = stored[name] ?? '';
      if (form[name] === undefined && isTooLong(before)) return [name, before];
      return [name, typeName === 'boolean' ? String(fieldOf(form, name) === 'true') : fieldOf(form, name)];
    }),
  );

/** The body that the texts of a form are; without what is empty and has no empty value, which then gets its default. */
export function bodyOf(resource: Resource, texts: Readonly<Record<string, string>>): Body {
  const body: Record<string, unknown> = {};
  for (const field of writable(resource)) {
    const value = typed[field.typeName].value(texts[field.name] ?? '');
    if (value !== undefined) body[field.name] = value;
  }
  return body;
}

/** What a browser shows of a value: an input of one line takes line breaks away. */
const shownIn = ({ typeName }: Field, value: unknown): string =>
  typed[typeName].kind === 'lines' ? textOf(value) : textOf(value).replace(/[\r\n]/g, '');

/** The fields of a body that differ from a record; null for those that are emptied. */
export function changesOf(
  resource: Resource,
  texts: Readonly<Record<string, string>>,
  record: DataRecord,
): Body {
  const body = bodyOf(resource, texts);
  const before = bodyOf(resource, recordTexts(resource, record));
  const changes: Record<string, unknown> = {};
  for (const field of writable(resource)) {
    const { name } = field;
    if (shownIn(field, body[name]) !== shownIn(field, before[name])) changes[name] = body[name] ?? null;
  }
  return changes;
}
