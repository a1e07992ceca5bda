import { type Field, isStorable, typeLabel } from '../fields/index.ts';
import { column, quote } from '../sql/index.ts';
import { oneOfSchema, suggestion } from '../yaml/index.ts';
import { parameterIssue, type QueryPart } from './part.ts';

/** Maximum length of the search string, in UTF-16 code units, and maximum number of words. */
export const searchLimits = { length: 200, words: 8 } as const;

/** `?q=`: limits lists to records that contain every word in any of the fields listed in the YAML, ignoring case. */
export const search: QueryPart<readonly Field[], readonly string[]> = {
  yaml: {
    description: 'Text fields searched by ?q=, which share an index.',
    type: 'array',
    items: { type: 'string' },
    uniqueItems: true,
    'x-expected': 'a list of fields, such as [ name, email ]',
    examples: [['name', 'email']],
  },
  list: { fieldOf: String, isAdded: false },
  yamlOf: (fields) => ({
    items: oneOfSchema(fields.filter(({ type }) => type.text !== undefined).map(({ name }) => name)),
  }),
  declare: ({ yaml, fields, report }) =>
    ((yaml ?? []) as readonly string[]).flatMap((name, index) => {
      const field = fields.get(name);
      if (field === undefined) {
        report([index], `unknown field "${name}"${suggestion(name, [...fields.keys()])}`);
        return [];
      }
      if (field.type.text === undefined) report([index], `${typeLabel(field)} fields cannot be searched`);
      return [field];
    }),
  reserved: ['q'],
  parameters: (fields) => (fields.length > 0 ? ['q'] : []),
  parse: (fields, { q = '' }, issues) => {
    if (fields.length === 0) return [];
    if (typeof q !== 'string') {
      issues.push(parameterIssue('q', 'must not be repeated'));
      return [];
    }
    const words = [...new Set(q.split(/\s+/).filter((word) => word !== ''))];
    if (q.length > searchLimits.length || words.length > searchLimits.words) {
      const { length, words: maxWords } = searchLimits;
      issues.push(parameterIssue('q', `must have at most ${maxWords} words and ${length} characters`));
    } else if (!isStorable(q)) {
      issues.push(parameterIssue('q', 'must not contain U+0000 or lone surrogates'));
    }
    return words;
  },
  shape: (words) => String(words.length),
  cost: (words) => ({ gather: words.length > 0, scan: words.length > 0 }),
  clauses: (fields, words, placeholder) => ({
    where: words.map((_, index) => {
      const text = searchTextSql(fields, column);
      return `${text} ilike ${placeholder((input) => pattern(input[index] ?? ''))}`;
    }),
  }),
  describe: (fields) =>
    fields.length === 0
      ? []
      : [
          {
            name: 'q',
            in: 'query',
            description: `Returns only records that contain every one of these words in ${fields.map(({ name }) => `\`${name}\``).join(', ')}. Case-insensitive; also matches parts of words. An empty value is ignored.`,
            schema: { type: 'string', maxLength: searchLimits.length },
          },
        ],
  indexes: (fields) =>
    fields.length === 0
      ? []
      : [
          {
            name: 'search_gin',
            method: 'gin',
            keys: [`${searchTextSql(fields, ({ name }) => quote(name))} gin_trgm_ops`],
          },
        ],
};

/**
 * Returns an SQL expression for the text to search, which has one line per field so that matches cannot span
 * fields. The database's default collation ignores capitalization in all alphabets, the columns' collation only
 * in ASCII.
 */
function searchTextSql(fields: readonly Field[], columnOf: (field: Field) => string): string {
  const lines = fields.map((field) =>
    field.nullable ? `coalesce(${columnOf(field)}, '')` : columnOf(field),
  );
  return `((${lines.join(' || chr(10) || ')}) collate "default")`;
}

/** Returns a LIKE pattern that matches text containing the word, with wildcards escaped. */
const pattern = (word: string): string => `%${word.replace(/[\\%_]/g, '\\$&')}%`;
