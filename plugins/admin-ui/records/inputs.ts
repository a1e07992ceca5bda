import type { Resource } from '../../../engine/compile/index.ts';
import { type Field, isAssignable, refersToUser } from '../../../engine/fields/index.ts';
import type { Body } from '../../../engine/records/index.ts';
import { type Form, field as fieldOf, type Input } from '../shell/index.ts';
import type { DataRecord } from './calls.ts';
import { fieldLabel, textOf, truncate } from './values.ts';

/** An option of a choice. */
interface Option {
  readonly value: string;
  readonly label: string;
}

/** Maximum length of an editable value in characters, so that several long values fit into a form. */
const maxInputLength = 50_000;

/** Returns whether a value is too long for a form. */
const isTooLong = (text: string): boolean => text.length > maxInputLength;

/** Returns the fields in a form: all writable fields. */
export const writable = ({ definition }: Resource): readonly Field[] =>
  definition.fields.filter(({ readOnly, aliasOf }) => !readOnly && aliasOf === undefined);

/** A form's contents. */
export interface FormState {
  /** Values as strings, by field. */
  readonly texts: Readonly<Record<string, string>>;
  /** Errors by field. */
  readonly errors: ReadonlyMap<string, string>;
  /** Values that another user has changed in the meantime, by field. */
  readonly concurrent: ReadonlyMap<string, string>;
  /** Suggested records or values, by field. */
  readonly suggestions: ReadonlyMap<string, readonly string[]>;
  /** The members who can be selected, by field. */
  readonly choices: ReadonlyMap<string, readonly Option[]>;
  /** The record being edited. Absent in the form for a new record. */
  readonly stored?: DataRecord;
}

/** Returns a form's inputs. */
export const formInputs = (
  resource: Resource,
  { texts, errors, concurrent, suggestions, choices, stored = {} }: FormState,
): Input[] =>
  writable(resource).map((field): Input => {
    const { control, help } = field.type.form;
    const text = texts[field.name] ?? '';
    const before = textOf(stored[field.name]);
    if (isTooLong(before)) {
      const help = `This value is longer than ${maxInputLength.toLocaleString('en')} characters and can only be changed through the API.`;
      const error = errors.get(field.name);
      return {
        kind: 'fixed',
        name: field.name,
        label: fieldLabel(field),
        value: truncate(before, 300),
        help,
        error,
      };
    }
    const currentText = concurrent.get(field.name);
    const choice = choices.get(field.name);
    const options = suggestions.get(field.name) ?? field.values?.list;
    const notes = [
      field.description,
      help,
      currentText === undefined
        ? undefined
        : `Current value: ${currentText === '' ? 'empty' : truncate(currentText, 300)}`,
    ];
    return {
      // Known values are suggestions. Like the API, the form also accepts other values.
      kind:
        choice !== undefined
          ? 'choice'
          : options === undefined
            ? control === 'suggestions'
              ? 'number'
              : control
            : 'suggestions',
      name: field.name,
      label: fieldLabel(field),
      value: text,
      checked: text === 'true',
      required: field.required,
      ...(field.maxLength !== undefined && { maxLength: field.maxLength }),
      help: notes.filter((note) => note !== undefined && note !== '').join(' ') || undefined,
      error: errors.get(field.name),
      ...(options !== undefined && { options: options.map((value) => ({ value, label: '' })) }),
      ...(choice !== undefined && {
        options: choice.map((option) => ({ ...option, selected: option.value === text })),
      }),
    };
  });

/** Returns a record's form values as strings. @param titles the titles of referenced records, by field */
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
 * Returns a submitted form's values as strings. Browsers do not submit unchecked checkboxes.
 * @param stored the record's previous values as strings. Values too long for a form are not submitted and
 * stay unchanged
 */
export const submittedTexts = (
  resource: Resource,
  form: Form,
  stored: Readonly<Record<string, string>> = {},
): Record<string, string> =>
  Object.fromEntries(
    writable(resource).flatMap((field): [string, string][] => {
      const { name, type } = field;
      const before = stored[name] ?? '';
      if (form[name] === undefined && isTooLong(before)) return [[name, before]];
      // Without a choice, a new record belongs to its creator, and an existing record keeps its owner.
      if (form[name] === undefined && isAssignable(field))
        return stored[name] === undefined ? [] : [[name, before]];
      const text = fieldOf(form, name);
      return [[name, type.form.control === 'checkbox' ? String(text === 'true') : text]];
    }),
  );

/**
 * Converts a form's strings to a request body. Omits empty strings if the field type has no empty value, so
 * that defaults apply.
 */
export function bodyOf(resource: Resource, texts: Readonly<Record<string, string>>): Body {
  const body: Record<string, unknown> = {};
  for (const field of writable(resource)) {
    const value = field.type.form.parse(texts[field.name] ?? '');
    if (value !== undefined) body[field.name] = value;
    else if (refersToUser(field) && texts[field.name] !== undefined) body[field.name] = null;
  }
  return body;
}

/** Returns a value as a browser would submit it, without line breaks if the input is a single line. */
const submittedText = ({ type }: Field, value: unknown): string =>
  type.form.control === 'lines' ? textOf(value) : textOf(value).replace(/[\r\n]/g, '');

/** Returns the fields that differ from a record. Emptied fields are null. */
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
    if (submittedText(field, body[name]) !== submittedText(field, before[name]))
      changes[name] = body[name] ?? null;
  }
  return changes;
}
