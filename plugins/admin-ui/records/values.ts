import type { Resource } from '../../../engine/compile/index.ts';
import { capitalize } from '../../../engine/errors.ts';
import { type Field, refersToUser } from '../../../engine/fields/index.ts';
import type { DisplayValue } from '../shell/index.ts';
import type { DataRecord } from './calls.ts';

/** Words that are spelled differently in labels than in names. */
const spellings: Readonly<Record<string, string>> = {
  ...Object.fromEntries(
    ['api', 'crm', 'csv', 'id', 'ip', 'seo', 'sms', 'uri', 'url', 'utm', 'vat'].map((word) => [
      word,
      word.toUpperCase(),
    ]),
  ),
  ids: 'IDs',
  urls: 'URLs',
  linkedin: 'LinkedIn',
  whatsapp: 'WhatsApp',
};

/**
 * Returns the label for a name from the definitions: `close_date` becomes "Close date", and `linkedin_url`
 * becomes "LinkedIn URL".
 */
export const humanize = (name: string): string =>
  capitalize(
    name
      .split('_')
      .map((word) => (Object.hasOwn(spellings, word) ? spellings[word] : word))
      .join(' '),
  );

/** Returns a field's label. The label for the reference `account_id` is "Account". */
export const fieldLabel = (field: Field): string =>
  humanize(field.type.refers === true || refersToUser(field) ? field.name.replace(/_id$/, '') : field.name);

/** Returns the noun for one of a resource's records, for example "lead source". */
export const resourceNoun = ({ definition }: Resource): string => definition.singular.replaceAll('_', ' ');

/** Returns the string that represents a value in forms and on pages. Null becomes an empty string. */
export const textOf = (value: unknown): string =>
  value === null || value === undefined ? '' : String(value);

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
  readonly fields: (resource: Resource) => readonly Field[];
  /** Returns a record's title: its name, or its ID if it does not have a name. */
  readonly of: (resource: Resource, record: DataRecord) => string;
}

/** Returns the last word of a name, for example `name` for `first_name`. */
const lastWord = (name: string): string => name.slice(name.lastIndexOf('_') + 1);

/**
 * Determines each resource's title fields. These are the fields that other resources show or, if no such fields exist,
 * the first string field and the similarly named fields directly after it, for example first_name and last_name.
 */
export function titlesOf(resources: readonly Resource[]): Titles {
  const fieldsOf = ({ name, definition }: Resource): readonly Field[] => {
    const { fields } = definition;
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
        .map(({ name }) => textOf(record[name]).trim())
        .filter((text) => text !== '')
        .join(' ');
      return truncate(title, titleLength) || `${humanize(resource.definition.singular)} ${textOf(record.id)}`;
    },
  };
}

/** Returns whether a field contains numbers, which are right-aligned. */
export const isNumeric = (field: Field): boolean =>
  field.type.form.control === 'number' && !refersToUser(field);

/**
 * Returns a field's value for display.
 * @param reference the title and URL of the referenced record, or the referenced user
 * @param length maximum number of characters
 */
export function displayValue(
  field: Field,
  value: unknown,
  reference?: DisplayValue,
  length = cellLength,
): DisplayValue {
  const text = textOf(value);
  if (text === '') return { text: '' };
  if (field.type.refers === true || refersToUser(field)) return reference ?? { text: `ID ${text}` };
  if (field.set === 'created' || field.set === 'updated') return { time: text };
  const { display = (text) => text } = field.type;
  return { text: truncate(display(text), length), ...(isNumeric(field) && { numeric: true }) };
}
