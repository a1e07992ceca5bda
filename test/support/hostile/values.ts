// Test support: strings, JSON values and bodies that break parsers and patterns with superlinear running
// time.

/** Bytes that contain `start`, as many repetitions of a string as given, and `end`. Strings of this size are slow to encode. */
export function many(unit: string, count: number, start = '', end = ''): Buffer {
  const length = Math.max(0, Math.floor(count)) * Buffer.byteLength(unit);
  return Buffer.concat([Buffer.from(start), Buffer.alloc(length, unit), Buffer.from(end)]);
}

/** A string whose size is chosen later: `start` followed by repetitions of `unit`. */
export interface LongText {
  readonly start?: string;
  readonly unit: string;
  readonly end?: string;
}

/**
 * Strings that are disproportionately expensive for careless normalizing, trimming, matching or splitting.
 */
export const texts: Readonly<Record<string, LongText>> = {
  'combining characters': { start: 'a', unit: '\u0301' },
  'unordered combining characters': { start: 'a', unit: '\u0315\u0300\u05ae' },
  'decomposed Hangul syllables': { unit: '\u1112\u1161\u11ab' },
  digits: { start: '1', unit: '1' },
  'zeros between ones': { start: '1', unit: '0', end: '1' },
  blanks: { start: 'a', unit: ' ', end: 'a' },
  'whitespace of every kind': { unit: '\u00a0\u2003\ufeff\t\n' },
  'incomplete email addresses': { unit: 'a@' },
  dots: { start: 'a@a', unit: '.a' },
  'characters outside the BMP': { unit: '🔑' },
  'zero bytes': { unit: '\0' },
  'lone surrogates': { unit: '\ud800' },
  'quotes and backslashes': { unit: '"\\' },
  expressions: { unit: '{{' },
  markup: { unit: '<b a="' },
  'a time with many digits': { start: '2026-01-01T00:00:00.', unit: '1', end: 'Z' },
  'a phone number': { start: '+', unit: '1 (' },
  'line breaks': { unit: '\r\n' },
};

/**
 * Encodes a long string, up to the given number of bytes. Each part is encoded only once, because the strings
 * are megabytes in size. This is correct because adjacent parts never combine into one character.
 */
function sized(
  { start = '', unit, end = '' }: LongText,
  bytes: number,
  written: (part: string) => string,
): Buffer {
  const [first, each, last] = [written(start), written(unit), written(end)];
  const left = bytes - Buffer.byteLength(first) - Buffer.byteLength(last);
  return many(each, Math.max(1, left / Buffer.byteLength(each)), first, last);
}

const quote = Buffer.from('"');
const inQuotes = (part: string): string => JSON.stringify(part).slice(1, -1);
const jsonText = (text: LongText) => (bytes: number) =>
  Buffer.concat([quote, sized(text, bytes - 2, inQuotes), quote]);

const escaped = (text: string): string => new URLSearchParams({ '': text }).toString().slice(1);
/** Returns a string encoded for a form, up to the given number of bytes. */
export const formText = (text: LongText, bytes: number): Buffer => sized(text, bytes, escaped);

const list = (item: string) => (bytes: number) =>
  many(`${item},`, Math.max(1, Math.floor((bytes - 2) / (item.length + 1))) - 1, '[', `${item}]`);
const nested = (open: string, close: string, depth: number) => (bytes: number) => {
  const levels = Math.min(depth, Math.floor((bytes - 1) / (open.length + close.length)));
  return Buffer.concat([many(open, levels, '', '1'), many(close, levels)]);
};
/**
 * Returns a function that joins as many parts as fit into the given number of bytes, each with a separator. The
 * parts are built once, because building 100,000 of them takes longer than the service needs to read them.
 * @param separator a text that the parts do not contain
 */
const joined = (part: (index: number) => string, most: number, separator: string) => {
  let whole: Buffer | undefined;
  return (bytes: number): Buffer => {
    whole ??= Buffer.from(Array.from({ length: most }, (_, index) => part(index) + separator).join(''));
    const end = bytes < 1 ? -1 : whole.lastIndexOf(separator, bytes - 1);
    return whole.subarray(0, Math.max(0, end));
  };
};
const keys = (name: (index: number) => string, most: number) => {
  const members = joined((index) => `"${name(index)}":1`, most, ',');
  return (bytes: number) => Buffer.concat([Buffer.from('{'), members(bytes - 2), Buffer.from('}')]);
};

const items = (item: (index: number) => string, most: number) => {
  const list = joined(item, most, ',');
  return (bytes: number) => {
    const inside = list(bytes - 2);
    return Buffer.concat([Buffer.from('['), inside, Buffer.from(']')]);
  };
};

/** Lists and objects that replace one value in a body. Each function receives the maximum size, in bytes. */
export const jsonContainers: Readonly<Record<string, (bytes: number) => string | Uint8Array>> = {
  '200,000 numbers': list('1'),
  'long numbers': list('9007199254740993'),
  'empty lists': list('[]'),
  'empty objects': list('{}'),
  // As many as lists of records, children and IDs can contain.
  '1,000 different numbers': items((index) => String(index), 1000),
  '1,000 objects with an ID': items((index) => `{"id":${index}}`, 1000),
  '1,000 different texts': items((index) => `"${index.toString(36)}"`, 1000),
  'lists in lists': nested('[', ']', 10_000),
  'objects in objects': nested('{"a":', '}', 10_000),
  '100,000 keys': keys((index) => index.toString(36), 100_000),
  'prototype keys': keys(
    (index) => ['__proto__', 'constructor', 'toString', 'valueOf'][index % 4] ?? '',
    1000,
  ),
};

/** JSON values that replace one value in a body. Each function receives the maximum size, in bytes. */
export const jsonValues: Readonly<Record<string, (bytes: number) => string | Uint8Array>> = {
  ...Object.fromEntries(Object.entries(texts).map(([name, text]) => [name, jsonText(text)])),
  'a long integer': (bytes) => many('1', bytes),
  'an integer with many zeros': (bytes) => many('0', bytes - 2, '1', '1'),
  'a small number': (bytes) => many('0', bytes - 3, '0.', '1'),
  'a long negative zero': (bytes) => many('0', bytes - 3, '-0.'),
  'a long exponent': (bytes) => many('9', bytes - 2, '1e'),
  ...jsonContainers,
};

/** Complete bodies of valid or nearly valid JSON. Each function receives the maximum size, in bytes. */
export const jsonBodies: Readonly<Record<string, (bytes: number) => string | Uint8Array>> = {
  '100,000 keys': keys((index) => index.toString(36), 100_000),
  'a repeated key': keys(() => 'a', 200_000),
  'one long key': (bytes) => many('a', bytes - 6, '{"', '":1}'),
  '200,000 numbers': list('1'),
  'lists in lists': nested('[', ']', 1_000_000),
  'unclosed lists': (bytes) => many('[', bytes),
  'unclosed objects': (bytes) => many('{"a":', bytes / 5),
  'an unclosed string': (bytes) => many('\\', bytes - 6, '{"a":"'),
  'numbers without a comma': (bytes) => many('1 ', bytes / 2),
  'invalid UTF-8': (bytes) => Buffer.alloc(bytes, 0xff),
  'UTF-16': (bytes) => Buffer.from(`{"a":"${'a'.repeat(Math.floor(bytes / 2) - 8)}"}`, 'utf16le'),
  blanks: (bytes) => many(' ', bytes),
  nothing: () => '',
};

const pairs = (pair: (index: number) => string) => joined(pair, 100_000, '&');

/** Complete forms. Each function receives the maximum size, in bytes. */
export const formBodies: Readonly<Record<string, (bytes: number) => string | Uint8Array>> = {
  '100,000 parameters': pairs((index) => `${index.toString(36)}=1`),
  'a repeated parameter': pairs(() => 'a=1'),
  'grant parameters': pairs((index) => `grant=leads%3A${index}`),
  'prototype names': pairs((index) => `${['__proto__', 'constructor', 'toString'][index % 3]}=1`),
  'brackets in brackets': (bytes) => many('[a]', (bytes - 3) / 3, 'a', '=1'),
  ampersands: (bytes) => many('&', bytes),
  'equal signs': (bytes) => many('=', bytes),
  'percent signs': (bytes) => many('%', bytes),
  'plus signs': (bytes) => many('+', bytes - 2, 'a='),
  'escaped invalid UTF-8': (bytes) => many('%FF', (bytes - 2) / 3, 'a='),
  'invalid UTF-8': (bytes) => Buffer.alloc(bytes, 0xff),
};

/** Maximum header size in bytes, minus the headers of every request. */
const headBytes = 15_000;
const long = (text: string) => text.repeat(Math.floor(headBytes / text.length));

/** Parameters that assign different columns of a file to the same field, or to none. */
const columnParameters = (field: string): string =>
  joined(
    (index) => `column[${index.toString(36)}]=${index % 8 === 0 ? field : ''}`,
    5000,
    '&',
  )(headBytes).toString();
const names = (name: (index: number) => string, bytes: number): string =>
  joined(name, 5000, ',')(bytes).toString();

/** Hostile query strings. */
export const queries: Readonly<Record<string, string>> = {
  '5,000 parameters': long('a&'),
  'different parameters': pairs((index) => `${index.toString(36)}=1`)(headBytes).toString(),
  'list parameters': `page=${'1'.repeat(4000)}&sort=${long('%CC%81').slice(0, 6000)}&dir=${'a'.repeat(2000)}&org=a&before=${'9'.repeat(2000)}`,
  'brackets in brackets': `a${long('[a]')}=1`,
  'percent signs': `a=${long('%')}`,
};

/** Hostile query strings of lists. */
export const listQueries: Readonly<Record<string, string>> = {
  'names of fields': ['fields', 'sort', 'expand', 'match', 'group_by', 'measure']
    .map((name) => `${name}=${names((index) => index.toString(36), 2000)}`)
    .join('&'),
  'filters of custom fields': joined(
    (index) => `custom.${index.toString(36)}=1`,
    5000,
    '&',
  )(headBytes).toString(),
  'operators of filters': joined(
    (index) => `status[${index.toString(36)}]=1`,
    5000,
    '&',
  )(headBytes).toString(),
  'values of a filter': `status[in]=${names((index) => index.toString(36), 6000)}&id[in]=${names(String, 6000)}`,
  'a repeated filter': long('rating=Hot&'),
  'different values of a filter': joined(
    (index) => `rating=${index.toString(36)}`,
    5000,
    '&',
  )(headBytes).toString(),
  'assigned columns': columnParameters('last_name'),
};

/** Hostile values of the headers that the service reads. */
export const heads: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  'a long preference': { prefer: `handling=${long('a')}` },
  'preferences with many spaces': { prefer: `,${long(' ')}handling` },
  'many preferences': { prefer: long(', handling =') },
  'many cookies': { cookie: long('a=b;') },
  'cookies with many spaces': { cookie: `a=${long(' ')}b` },
  'cookies with many percent signs': { cookie: `crm_session=${long('%F')}` },
  'a long session': { cookie: `crm_session=${long('a')}` },
  'a long session over TLS': { cookie: `__Host-crm_session=${long('a')}` },
  'a long credential': { authorization: `Bearer ${long('a')}` },
  'credentials with many spaces': { authorization: `Bearer${long(' ')}a b` },
  'a long key': { authorization: `Bearer crm_${long('a')}` },
  'a long token': { authorization: `Bearer a.${long('a')}.a` },
  'a long type': { 'content-type': `application/json${long(';a="\\\\"')}` },
  'a type with many spaces': { 'content-type': `application/json;${long(' ')}x` },
  'many signatures': {
    'stripe-signature': `t=1,${long('v1=a,').slice(0, 10_000)}`,
    'x-hub-signature-256': long('a').slice(0, 2000),
    'x-twilio-signature': long('=').slice(0, 2000),
  },
  'list headers': {
    'x-forwarded-for': long('1.1.1.1, ').slice(0, 4000),
    'if-none-match': long('"a", ').slice(0, 4000),
    'accept-encoding': long('gzip, ').slice(0, 4000),
  },
  'a long origin': { origin: `http://${long('a')}`, 'sec-fetch-site': 'same-origin' },
  'a long slug': { 'x-org-slug': long('a'), 'x-inbound-secret': 'a' },
};

/** CSV or NDJSON of one shape. */
interface HostileLines {
  readonly bytes: (bytes: number) => string | Uint8Array;
  /**
   * Whether each line is validated. A few bytes then have the same cost as in any other record, so a smaller
   * size is sufficient.
   */
  readonly isCostly?: true;
  /** Parameters of the request. */
  readonly query?: string;
}

/** The fields of the records in a file. */
export interface FileFields {
  readonly field: string;
  readonly customFields: readonly string[];
}

const repeated =
  (unit: string, start = '') =>
  (bytes: number) =>
    many(unit, Math.max(1, (bytes - start.length) / unit.length), start);
const numberedNames = (bytes: number) => {
  let names = '';
  for (let index = 0; names.length < bytes - 10; index++) names += `${index.toString(36)},`;
  return names;
};

const customHeader = (customFields: readonly string[]): string =>
  customFields.map((name) => `custom.${name}`).join();

/** Returns CSV with many columns, lines, cells or quotes, up to the given number of bytes. */
export const csvBodies = ({ field, customFields }: FileFields): Readonly<Record<string, HostileLines>> => ({
  'different columns, many of them assigned': { bytes: numberedNames, query: columnParameters(field) },
  'assigned columns that are missing': { bytes: () => `${field}\n`, query: columnParameters(field) },
  // Only the header: the values of many custom fields allocate more per line than the limits allow for.
  'columns of custom fields': { bytes: () => `${customHeader(customFields)}\n` },
  'columns of unknown custom fields': {
    bytes: (bytes) =>
      `${field},${names((index) => `custom.${index.toString(36)}`, Math.min(bytes, 20_000) - 20)}\n`,
  },
  'a header of commas': { bytes: repeated(',') },
  'a header of different columns': { bytes: numberedNames },
  'a header with a repeated column': { bytes: repeated(`${field},`) },
  'a header of quoted empty names': { bytes: repeated('"",') },
  'a long column name': { bytes: repeated('a', `${field},`) },
  'lines without a known column': { bytes: repeated('A\r\n') },
  'a line of commas': { bytes: repeated(',', `${field}\n`) },
  'a line of carriage returns and commas': { bytes: repeated(',\r', `${field}\r\n`) },
  'lines of one character': { bytes: repeated('A\n', `${field}\n`), isCostly: true },
  'lines with too many cells': { bytes: repeated(',\n', `${field}\n`), isCostly: true },
  'lines of two thousand cells': { bytes: repeated(`${','.repeat(1999)}\n`, `${field}\n`), isCostly: true },
  'empty lines': { bytes: repeated('\r\n', `${field}\r\n`) },
  'carriage returns': { bytes: repeated('\r') },
  quotes: { bytes: repeated('"') },
  'quotes in a cell': { bytes: repeated('""', `${field}\n"`) },
  'an unclosed quote': { bytes: repeated('a,\n', `${field}\n"`) },
  'one long cell': { bytes: repeated('a', `${field}\n`) },
  'cells of a megabyte': { bytes: repeated(`${'a'.repeat(1_000_000)}\n`, `${field}\n`) },
  'formula cells': { bytes: repeated("'=1,\n", `${field},b\n`), isCostly: true },
  'invalid UTF-8': { bytes: (bytes) => Buffer.alloc(bytes, 0xff) },
  nothing: { bytes: () => '' },
});

/** Returns NDJSON with many lines, keys, values or strings, up to the given number of bytes. */
export const ndjsonBodies = ({
  field,
}: Pick<FileFields, 'field'>): Readonly<Record<string, HostileLines>> => ({
  'unknown custom fields': {
    bytes: (bytes) =>
      Buffer.concat([
        Buffer.from('{"custom":'),
        keys((index) => index.toString(36), 100_000)(Math.min(bytes, 1_000_000) - 20),
        Buffer.from('}\n'),
      ]),
  },
  ...Object.fromEntries(
    Object.entries(jsonValues).map(([name, value]) => [
      name,
      {
        bytes: (bytes: number) =>
          Buffer.concat([
            Buffer.from(`{"${field}":`),
            Buffer.from(value(Math.min(bytes, 1_000_000) - field.length - 8)),
            Buffer.from('}\n'),
          ]),
      },
    ]),
  ),
  'empty lines': { bytes: repeated('\n') },
  'a line of spaces': { bytes: repeated(' ') },
  'lines of numbers': { bytes: repeated('0\n'), isCostly: true },
  'lines of invalid JSON': { bytes: repeated('{\n'), isCostly: true },
  'lines of empty objects': { bytes: repeated('{}\n'), isCostly: true },
  'lines with invalid values': { bytes: repeated(`{"${field}":0}\n`), isCostly: true },
  'lines with many keys': {
    bytes: (bytes) => repeated(`${keys((index) => index.toString(36), 10_000)(50_000).toString()}\n`)(bytes),
  },
  'an unterminated line': { bytes: repeated('a') },
  'invalid UTF-8': { bytes: (bytes) => Buffer.alloc(bytes, 0xff) },
  nothing: { bytes: () => '' },
});

const columnParts = joined(
  (index) => `content-disposition: form-data; name="column.${index}"\r\n\r\nlast_name`,
  20_000,
  '\r\n--x\r\n',
);

/** Form parts that follow a valid start, up to the given number of bytes. The boundary is `x`. */
export const multipartBodies: Readonly<Record<string, (start: string, bytes: number) => Uint8Array>> = {
  'empty parts': (start, bytes) => repeated('--x\r\n\r\n\r\n', start)(bytes),
  'parts with a name': (start, bytes) =>
    repeated('--x\r\ncontent-disposition: form-data; name="a"\r\n\r\n\r\n', start)(bytes),
  'many part headers': (start, bytes) => repeated('a: b\r\n', `${start}--x\r\n`)(bytes),
  'part headers without colons': (start, bytes) => repeated('a\r\n', `${start}--x\r\n`)(bytes),
  'folded part headers': (start, bytes) => repeated(' \r\n', `${start}--x\r\na: b\r\n`)(bytes),
  'a long name': (start, bytes) =>
    repeated('n', `${start}--x\r\ncontent-disposition: form-data; name="`)(bytes),
  'a long file name': (start, bytes) =>
    repeated('\\"', `${start}--x\r\ncontent-disposition: form-data; name="file"; filename="`)(bytes),
  'a part for each column': (start, bytes) =>
    Buffer.concat([Buffer.from(`${start}--x\r\n`), columnParts(bytes - start.length)]),
  'many parameters': (start, bytes) =>
    repeated(';a=b', `${start}--x\r\ncontent-disposition: form-data`)(bytes),
  'partial boundaries': (start, bytes) => repeated('\r\n--', `${start}--x\r\n\r\n`)(bytes),
  'text before the first part': (_start, bytes) => repeated('\r\n-')(bytes),
  'text after the last part': (start, bytes) => repeated('--x\r\n', `${start}--x--\r\n`)(bytes),
  'an unterminated field': (start, bytes) =>
    repeated('a', `${start}--x\r\ncontent-disposition: form-data; name="match"\r\n\r\n`)(bytes),
  dashes: (_start, bytes) => repeated('-')(bytes),
};
