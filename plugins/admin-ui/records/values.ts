import type { Resource } from '../../../engine/compile/index.ts';
import type { Field } from '../../../engine/fields/index.ts';
import type { DisplayValue } from '../shell/index.ts';
import type { DataRecord } from './calls.ts';

/** Words of names that labels spell in their own way. */
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

/** Returns the label of a name in the definitions: `close_date` becomes "Close date", `linkedin_url` "LinkedIn URL". */
export const humanize = (name: string): string => {
  const text = name
    .split('_')
    .map((word) => (Object.hasOwn(spellings, word) ? spellings[word] : word))
    .join(' ');
  return `${text.charAt(0).toUpperCase()}${text.slice(1)}`;
};

/** Returns the label of a field. A reference is labelled like its record: `account_id` becomes "Account". */
export const fieldLabel = ({ name, type }: Field): string =>
  humanize(type.refers === true ? name.replace(/_id$/, '') : name);

/** What one record of a resource is called: "lead source". */
export const resourceNoun = ({ definition }: Resource): string => definition.singular.replaceAll('_', ' ');

/** The text of a value as it is typed and shown; empty for none. */
export const textOf = (value: unknown): string =>
  value === null || value === undefined ? '' : String(value);

/** Whether a text has more than so many characters. */
export const isCut = (text: string, length: number): boolean =>
  // A character may be two UTF-16 code units.
  text.length > length && (text.length > 2 * length || [...text].length > length);

/** The start of a text, at most so many characters, with an ellipsis if it is longer. */
export const cut = (text: string, length: number): string =>
  isCut(text, length) ? `${[...text.slice(0, 2 * length)].slice(0, length).join('')}…` : text;

/** Characters of a title, and of a value in a list. */
const titleLength = 200;
const cellLength = 300;

/** What records are called after. */
export interface Titles {
  /** The fields that make the title. */
  readonly fields: (resource: Resource) => readonly Field[];
  /** The title of a record: its name, else its number. */
  readonly of: (resource: Resource, record: DataRecord) => string;
}

/** The last word of a name: `name` of `first_name`. */
const lastWord = (name: string): string => name.slice(name.lastIndexOf('_') + 1);

/**
 * How the records of each resource are called: as other resources show them, else by their first text and those directly
 * after it that are of its kind, as first_name and last_name.
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
    const texts = fields.filter(({ typeName, values }) => typeName === 'string' && values === undefined);
    const [first] = texts;
    if (first === undefined) return [];
    const start = fields.indexOf(first);
    const rest = fields.slice(start).findIndex(({ name: each }) => lastWord(each) !== lastWord(first.name));
    return fields.slice(start, rest === -1 ? undefined : start + rest);
  };
  const known = new Map(resources.map((resource) => [resource.name, fieldsOf(resource)]));
  const fields: Titles['fields'] = ({ name }) => known.get(name) ?? [];
  return {
    fields,
    of: (resource, record) => {
      const named = fields(resource)
        .map(({ name }) => textOf(record[name]).trim())
        .filter((text) => text !== '')
        .join(' ');
      return cut(named, titleLength) || `${humanize(resource.definition.singular)} ${textOf(record.id)}`;
    },
  };
}

/** Whether a field's values are numbers, to be aligned and typed as such. */
export const isNumeric = ({ typeName }: Field): boolean =>
  typeName === 'integer' || typeName === 'int64' || typeName === 'number';

/** A timestamp as people read it, with its own offset and all its digits. */
const timestampText = (text: string): string =>
  text
    .replace('T', ' ')
    .replace(/(?:Z|[+-]\d\d:\d\d)$/, (offset) => (offset === 'Z' ? ' UTC' : ` ${offset}`));

/**
 * A value of a field as pages show it.
 * @param referred the title of the record that it refers to, with its address
 * @param length characters of a text that are shown
 */
export function displayValue(
  field: Field,
  value: unknown,
  referred?: { readonly text: string; readonly href: string },
  length = cellLength,
): DisplayValue {
  const text = textOf(value);
  if (text === '') return { text: '' };
  if (field.type.refers === true) return referred ?? { text: `ID ${text}` };
  if (field.typeName === 'boolean') return { text: value === true ? 'yes' : 'no' };
  if (field.typeName === 'timestamp')
    return field.set === undefined ? { text: timestampText(text) } : { time: text };
  return { text: cut(text, length), ...(isNumeric(field) && { numeric: true }) };
}
