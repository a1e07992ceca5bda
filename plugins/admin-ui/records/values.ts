import type { ResourceView } from '../../../engine/compile/index.ts';
import { recordLabel, resourceLabel } from '../../../engine/definition/index.ts';
import {
  type Field,
  formatReference,
  inSentence,
  isRecordReference,
  refersToUser,
} from '../../../engine/fields/index.ts';
import { type DisplayValue, hueAt, type Language } from '../shell/index.ts';
import type { DataRecord } from './calls.ts';

/** Returns a label as it is written within a sentence. German nouns keep their capital letters. */
export const inText = (label: string, language: Language): string =>
  language === 'en' ? inSentence(label) : label;

/** Returns the noun for one of a resource's records, for example "lead source". */
export const resourceNoun = ({ definition }: ResourceView, language: Language): string =>
  inText(recordLabel(definition), language);

/** Returns the noun for a resource's records, for example "lead sources". */
export const resourceWords = ({ definition }: ResourceView, language: Language): string =>
  inText(resourceLabel(definition), language);

/** Returns a number with a resource's noun, for example "1 lead" or "30 leads". */
export const countNoun = (resource: ResourceView, count: number, language: Language): string =>
  `${new Intl.NumberFormat(language).format(count)} ${(count === 1 ? resourceNoun : resourceWords)(resource, language)}`;

/** Returns whether a string can be a record's ID. */
export const isRecordId = (text: string): boolean => /^-?\d{1,19}$/.test(text);

/** Returns the string that represents a value in forms and on pages. Null becomes an empty string. */
export function textOf(value: unknown): string {
  if (value === null || value === undefined) return '';
  return isRecordReference(value) ? formatReference(value) : String(value);
}

/** Returns the string that represents a field's value in forms and on pages. */
export const valueText = ({ type: { form } }: Field, value: unknown): string =>
  value === null || value === undefined || form.format === undefined ? textOf(value) : form.format(value);

/** Returns whether a string is longer than a number of characters. */
export const isTruncated = (text: string, length: number): boolean =>
  // A character can consist of two UTF-16 code units.
  text.length > length && (text.length > 2 * length || [...text].length > length);

/** Truncates a string to a number of characters and appends an ellipsis. */
export const truncate = (text: string, length: number): string =>
  isTruncated(text, length) ? `${[...text.slice(0, 2 * length)].slice(0, length).join('')}…` : text;

/** Maximum number of characters in titles and in list values. */
const titleLength = 200;
const cellLength = 300;

/** Record titles. */
export interface Titles {
  /** The fields that form the title. */
  readonly fields: (resource: ResourceView) => readonly Field[];
  /** Returns a record's title: its name, or its ID if it does not have a name. */
  readonly of: (resource: ResourceView, record: DataRecord) => string;
}

/** Returns a value in a title. Numbers are not formatted, because they can be part of a name. */
function titlePart(field: Field, value: unknown, locale: string): string {
  const text = valueText(field, value);
  return text !== '' && field.type.bounds !== undefined && !isNumeric(field)
    ? (field.type.display?.(text, locale) ?? text)
    : text;
}

/** Returns the last word of a name, for example `name` for `first_name`. */
const lastWord = (name: string): string => name.slice(name.lastIndexOf('_') + 1);

/**
 * Determines each resource's title fields. These are the fields in its definition (`screen.title`), the fields that other
 * resources show or, if no such fields exist, the first string field and the similarly named fields directly after it, for example first_name and last_name.
 */
export function titlesOf(resources: readonly ResourceView[], locale = 'en'): Titles {
  const fieldsOf = ({ name, definition }: ResourceView): readonly Field[] => {
    const { fields, screen } = definition;
    if (screen.title.length > 0) return screen.title;
    for (const other of resources) {
      for (const { through, show = [] } of other.definition.fields) {
        const reference = other.definition.fields.find((field) => field.name === through);
        if (reference?.to === name) return fields.filter((field) => show.includes(field.name));
      }
    }
    const texts = fields.filter(
      ({ type, values }) => type.text !== undefined && type.form.control === 'line' && values === undefined,
    );
    const [first] = texts;
    if (first === undefined) return [];
    const start = fields.indexOf(first);
    const rest = fields
      .slice(start)
      .findIndex(({ name: fieldName }) => lastWord(fieldName) !== lastWord(first.name));
    return fields.slice(start, rest === -1 ? undefined : start + rest);
  };
  const fieldsByResource = new Map(resources.map((resource) => [resource.name, fieldsOf(resource)]));
  const fields: Titles['fields'] = ({ name }) => fieldsByResource.get(name) ?? [];
  return {
    fields,
    of: (resource, record) => {
      const title = fields(resource)
        .map((field) => titlePart(field, record[field.name], locale).trim())
        .filter((text) => text !== '')
        .join(' ');
      return truncate(title, titleLength) || `${recordLabel(resource.definition)} ${textOf(record.id)}`;
    },
  };
}

/** Returns whether a field contains numbers. */
const isNumeric = (field: Field): boolean => field.type.form.control === 'number' && !refersToUser(field);

/** Returns whether a field contains numbers, amounts or times, which are right-aligned and never truncated. */
export const isRightAligned = (field: Field): boolean =>
  isNumeric(field) ||
  field.type.calculated !== undefined ||
  field.type.operand === 'timestamp' ||
  field.type.operand === 'date';

/** How a value is displayed. */
interface DisplayOptions {
  /** The title and URL of the referenced record, or the referenced user. */
  readonly reference: DisplayValue | undefined;
  /** BCP 47 language tag. */
  readonly locale: string;
  /** Maximum number of characters. */
  readonly length?: number;
}

/** Returns a field's value for display. */
export function displayValue(
  field: Field,
  value: unknown,
  { reference, locale, length = cellLength }: DisplayOptions,
): DisplayValue {
  const text = valueText(field, value);
  if (text === '') return { text: '' };
  if (field.type.refers === true || refersToUser(field))
    return reference ?? { text: field.alternatives === undefined ? `ID ${text}` : text };
  if (field.set === 'created' || field.set === 'updated') return { time: text };
  // IDs are not formatted.
  if (field.set !== undefined) return { text, numeric: true };
  if (field.values?.isSuggestion === false && field.type.element === undefined) {
    const position = field.values.list.indexOf(text);
    return { text: truncate(text, length), hue: hueAt(position) };
  }
  const displayed = truncate(field.type.display?.(text, locale) ?? text, length);
  const href = addressUrl(field, text);
  return {
    text: displayed,
    ...(href !== undefined && { href, isExternal: true }),
    ...(isNumeric(field) && { numeric: true }),
    ...(displayed !== text && !isNumeric(field) && !isTruncated(text, length) && { title: text }),
  };
}

/** Maximum number of characters in a link. */
const maxUrlLength = 2000;

/** Returns whether a text looks like a phone number. */
export const isPhoneNumber = (text: string): boolean => /^\+?[\d\s()./-]{5,30}$/.test(text);

/** Returns the URL for a website, an email address or a phone number, or undefined if the value is not one of them. */
function addressUrl({ type, lookup, comparison = lookup }: Field, text: string): string | undefined {
  if (type.text === undefined || text.length > maxUrlLength) return undefined;
  if (/^https?:\/\/[^\s/]/i.test(text) && URL.canParse(text)) return text;
  if (/^[^\s@<>"]+@[^\s@<>"]+\.[^\s@<>".]+$/.test(text)) return `mailto:${encodeURIComponent(text)}`;
  if (comparison === 'digits' && isPhoneNumber(text)) return `tel:${text.replace(/[^\d+]/g, '')}`;
  return undefined;
}
