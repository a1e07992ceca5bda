import type { ResourceView } from '../../../engine/compile/index.ts';
import {
  type Field,
  fieldLabel,
  isAssignable,
  type Notation,
  refersToMany,
  refersToUser,
  transitionScope,
} from '../../../engine/fields/index.ts';
import type { Body } from '../../../engine/records/index.ts';
import {
  type Form,
  field as fieldOf,
  fields,
  type Input,
  joinTexts,
  ownWords,
  type Text,
} from '../shell/index.ts';
import type { DataRecord } from './calls.ts';
import type { RecordsText } from './texts/index.ts';
import { truncate, valueText } from './values.ts';

/** An option of a choice. */
export interface Option {
  readonly value: string;
  readonly label: string;
}

/** Maximum length of an editable value in characters, so that several long values fit into a form. */
const maxInputLength = 50_000;

/** Returns whether a value is too long for a form. */
const isTooLong = (text: string): boolean => text.length > maxInputLength;

/** Returns the fields in a form: all writable fields. */
export const writable = ({ definition }: ResourceView): readonly Field[] =>
  definition.fields.filter(({ readOnly, aliasOf }) => !readOnly && aliasOf === undefined);

/** A form's contents. */
export interface FormState {
  /** Values as strings, by field. */
  readonly texts: Readonly<Record<string, string>>;
  /** Errors by field. */
  readonly errors: ReadonlyMap<string, Text>;
  /** Values that another user has changed in the meantime, by field. */
  readonly concurrent: ReadonlyMap<string, string>;
  /** Suggested records or values, by field. */
  readonly suggestions: ReadonlyMap<string, readonly string[]>;
  /** The members who can be selected, by field. */
  readonly choices: ReadonlyMap<string, readonly Option[]>;
  /** The records that can be checked in each list of references, by field. */
  readonly checkable: ReadonlyMap<string, readonly Option[]>;
  /** The scopes to which transitions are limited and in which the member finds the record. Absent for a new record. */
  readonly scopes?: ReadonlySet<string>;
  /** The record being edited. Absent in the form for a new record. */
  readonly stored?: DataRecord;
  /** Whether the form writes a value to several records, whose values can differ. */
  readonly isForSeveral?: boolean;
}

/**
 * Returns the listed values to which a field can change.
 * @param stored the record's value; undefined for a new record
 */
function reachable(
  { values, transitions }: Field,
  stored: string | undefined,
  scopes: FormState['scopes'],
): readonly string[] {
  const list = values?.list ?? [];
  if (transitions === undefined) return list;
  const isAllowed = (value: string) => {
    const scope = transitionScope(transitions, stored ?? '', value);
    return scope === undefined || scopes?.has(scope) === true;
  };
  const next = stored
    ? [stored, ...(transitions.next.get(stored) ?? []).filter(isAllowed)]
    : transitions.initial;
  return list.filter((value) => next.includes(value));
}

/** Returns whether a form offers no value, because the field is required and not chosen yet, or accepts no value. */
const canBeEmpty = ({ values, nullable, required }: Field): boolean =>
  values?.accepted === undefined || nullable || required || values.accepted.includes('');

/** Returns the options for a field with an enumeration, and for its current value, or undefined for other fields. */
function listedChoice(
  field: Field,
  current: string,
  stored: string | undefined,
  { scopes, isForSeveral = false }: Pick<FormState, 'scopes' | 'isForSeveral'>,
  emptyLabel: string,
): readonly Option[] | undefined {
  const { values, required } = field;
  if (values === undefined || values.isSuggestion || field.type.element !== undefined) return undefined;
  const isListed = current === '' || values.list.includes(current);
  return [
    ...((required && current !== '') || !canBeEmpty(field) ? [] : [{ value: '', label: emptyLabel }]),
    ...[
      ...(isForSeveral ? values.list : reachable(field, stored, scopes)),
      ...(isListed ? [] : [current]),
    ].map((value) => ({
      value,
      label: value,
    })),
  ];
}

/** The option of a choice that stands for a value that is not suggested. It is entered in an input of its own. */
const otherValue = '…';

/** Returns the name of the input for a value that is not suggested. Names of fields contain no full stops. */
const otherInput = (name: string): string => `${name}.other`;

/** Returns whether a form offers a field's suggested values as a choice in which another value can be entered. */
const isSuggestedChoice = ({ type, values }: Field): boolean =>
  values?.isSuggestion === true && type.element === undefined && !values.list.includes(otherValue);

/** Returns the options for a field with suggested values, and the input for another one, which contains the current value. */
function suggestedChoice(
  field: Field,
  current: string,
  { emptyLabel, t }: { readonly emptyLabel: string; readonly t: RecordsText },
): Pick<Input<Text>, 'options' | 'other'> {
  const { name, values, required } = field;
  const list = values?.list ?? [];
  const isOther = current !== '' && !list.includes(current);
  return {
    options: [
      ...(required && current !== '' ? [] : [{ value: '', label: emptyLabel }]),
      ...list.map((value) => ({ value, label: value, selected: value === current })),
      { value: otherValue, label: t('anotherValue'), selected: isOther },
    ],
    other: {
      value: otherValue,
      name: otherInput(name),
      label: t('anotherValueOf', { field: fieldLabel(field) }),
      text: isOther ? current : '',
    },
  };
}

/** Returns a sentence about the limits of a field's values, or undefined if it has none. */
function limitsNote({ min, max, minLength }: Field, t: RecordsText): Text | undefined {
  if (min !== undefined && max !== undefined) return t('between', { min: String(min), max: String(max) });
  if (min !== undefined) return t('atLeast', { min: String(min) });
  if (max !== undefined) return t('atMost', { max: String(max) });
  return minLength === undefined ? undefined : t('atLeastCharacters', { min: String(minLength) });
}

/** Returns a sentence about how values are written. */
function notationNote(notation: Notation, t: RecordsText): Text {
  switch (notation.kind) {
    case 'json':
      return t('json');
    case 'lines':
      return t('valuePerLine');
    case 'reference':
      return t('nameOrIdOfList');
    case 'timestamp':
      return t('timestampExample');
    case 'example':
      return t('forExample', { example: notation.example });
    case 'amount':
      return t('inCurrency', { currency: notation.currency });
    case 'recordOf':
      return t('resourceAndId', { example: notation.resource });
  }
}

/** Returns a field's help, or its description unless it only repeats the label. */
function helpOf(field: Field): Text | undefined {
  const { help, description } = field;
  const repeatsLabel = description.replace(/\.$/, '').toLowerCase() === fieldLabel(field).toLowerCase();
  if (help !== undefined) return ownWords(help);
  return repeatsLabel ? undefined : ownWords(description);
}

/** Returns a checkbox for each record, and for each checked ID of another record. */
function checkboxesOf(records: readonly Option[], text: string): NonNullable<Input['options']> {
  const ids = text.split(',').filter((id) => id !== '');
  const others = ids.filter((id) => records.every(({ value }) => value !== id));
  return [...records, ...others.map((value) => ({ value, label: `ID ${value}` }))].map((option) => ({
    ...option,
    selected: ids.includes(option.value),
  }));
}

/** Returns whether a field is a list of closed values. */
const hasClosedList = ({ type, values }: Field): boolean =>
  type.element !== undefined && values?.accepted !== undefined;

/** Returns a checkbox for each closed value. @param text the checked values, on a line each */
const listedCheckboxes = ({ values }: Field, text: string): NonNullable<Input['options']> => {
  const checked = text.split('\n');
  return (values?.list ?? []).map((value) => ({ value, label: value, selected: checked.includes(value) }));
};

/** Joins the notes about a value. */
function joinedNotes(notes: readonly (Text | undefined)[]): Text | undefined {
  const present = notes.filter((note) => note !== undefined && note !== '') as readonly Text[];
  return present.length === 0 ? undefined : joinTexts(present);
}

/** Returns a form's inputs. */
export const formInputs = (resource: ResourceView, state: FormState, t: RecordsText): Input<Text>[] => {
  const { texts, errors, concurrent, suggestions, choices, checkable, stored } = state;
  return writable(resource).map((field): Input<Text> => {
    const { control, notation } = field.type.form;
    const text = texts[field.name] ?? '';
    const before = valueText(field, stored?.[field.name]);
    if (isTooLong(before)) {
      const help = t('tooLong', { count: maxInputLength });
      const error = errors.get(field.name);
      return {
        kind: 'fixed',
        name: field.name,
        label: ownWords(fieldLabel(field)),
        value: truncate(before, 300),
        help,
        error,
      };
    }
    const currentText = concurrent.get(field.name);
    const emptyLabel = state.isForSeveral === true ? t('empty') : '–';
    const choice =
      choices.get(field.name) ??
      listedChoice(
        field,
        text,
        stored !== undefined && field.name in stored ? before : undefined,
        state,
        emptyLabel,
      );
    const suggested = isSuggestedChoice(field) ? suggestedChoice(field, text, { emptyLabel, t }) : undefined;
    const options = suggestions.get(field.name);
    const notes = [
      helpOf(field),
      limitsNote(field, t),
      stored === undefined && state.isForSeveral !== true && resource.definition.defaults.has(field.name)
        ? t('calculated')
        : undefined,
      notation && notationNote(notation, t),
      currentText === undefined
        ? undefined
        : t('currentValue', { value: currentText === '' ? t('empty') : truncate(currentText, 300) }),
    ];
    if (refersToMany(field) || hasClosedList(field)) {
      return {
        kind: 'checkboxes',
        name: field.name,
        label: ownWords(fieldLabel(field)),
        help: joinedNotes(notes),
        error: errors.get(field.name),
        options: hasClosedList(field)
          ? listedCheckboxes(field, text)
          : checkboxesOf(checkable.get(field.name) ?? [], text),
      };
    }
    return {
      kind:
        choice !== undefined || suggested !== undefined
          ? 'choice'
          : options === undefined
            ? control === 'suggestions'
              ? 'number'
              : field.format === 'email' && control === 'line'
                ? 'email'
                : control
            : 'suggestions',
      name: field.name,
      label: ownWords(fieldLabel(field)),
      value: text,
      checked: text === 'true',
      required: field.required,
      ...(field.maxLength !== undefined && { maxLength: field.maxLength }),
      help: joinedNotes(notes),
      error: errors.get(field.name),
      ...(options !== undefined && { options: options.map((value) => ({ value, label: '' })) }),
      ...(choice !== undefined && {
        options: choice.map((option) => ({ ...option, selected: option.value === text })),
      }),
      ...suggested,
    };
  });
};

/** Returns a record's form values as strings. @param titles the titles of referenced records, by field */
export const recordTexts = (
  resource: ResourceView,
  record: DataRecord,
  titles: ReadonlyMap<string, string> = new Map(),
): Record<string, string> =>
  Object.fromEntries(
    writable(resource).map((field) => {
      const { name } = field;
      const text = valueText(field, record[name]);
      const title = titles.get(name);
      return [name, title === undefined || text === '' ? text : `${title} (${text})`];
    }),
  );

const byNumber = new Intl.Collator('en', { numeric: true }).compare;

/**
 * Returns a submitted form's values as strings. Browsers do not submit unchecked checkboxes.
 * @param stored the record's previous values as strings. Values too long for a form are not submitted and
 * stay unchanged
 */
export const submittedTexts = (
  resource: ResourceView,
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
      // The checkboxes' order differs from the order of the list.
      if (hasClosedList(field)) return [[name, fields(form, name).join('\n')]];
      if (refersToMany(field)) return [[name, fields(form, name).toSorted(byNumber).join()]];
      const chosen = fieldOf(form, name);
      const isOther = isSuggestedChoice(field) && chosen === otherValue;
      const other = fieldOf(form, otherInput(name));
      // A listed value stays if no other one is entered.
      const isUnchanged = other === '' && field.values?.list.includes(before) === true;
      const text = isOther ? (isUnchanged ? before : other) : chosen;
      return [[name, type.form.control === 'checkbox' ? String(text === 'true') : text]];
    }),
  );

/**
 * Converts a form's strings to a request body. Omits empty strings if the field type has no empty value, so
 * that defaults apply.
 */
export function bodyOf(resource: ResourceView, texts: Readonly<Record<string, string>>): Body {
  const body: Record<string, unknown> = {};
  for (const field of writable(resource)) {
    const text = texts[field.name] ?? '';
    // An empty choice means that there is no value.
    const isCalculated = resource.definition.defaults.has(field.name);
    const isEmpty = text === '' && (isCalculated || field.values?.accepted?.includes('') === false);
    const value = isEmpty ? undefined : field.type.form.parse(text);
    if (value !== undefined) body[field.name] = value;
    else if (refersToUser(field) && !isCalculated && texts[field.name] !== undefined) body[field.name] = null;
  }
  return body;
}

/** Returns a value as a browser would submit it, without line breaks if the input is a single line. */
const submittedText = (field: Field, value: unknown): string =>
  field.type.form.control === 'lines'
    ? valueText(field, value)
    : valueText(field, value).replace(/[\r\n]/g, '');

/** Returns the fields that differ from a record. Emptied fields are null. */
export function changesOf(
  resource: ResourceView,
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
