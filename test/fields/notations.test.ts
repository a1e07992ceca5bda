// How values are written and read outside JSON: in CSV files, forms, pages and query parameters, and how texts are compared.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { reasonKey } from '../../engine/errors.ts';
import { alternativesType } from '../../engine/fields/alternatives.ts';
import { currencyField } from '../../engine/fields/currency.ts';
import { customValuesType } from '../../engine/fields/custom-values.ts';
import { documentFormats, documentIssue, schemaIssue } from '../../engine/fields/documents.ts';
import type { Encoder } from '../../engine/fields/encode.ts';
import { decimalText, int64, isRowId, parseExactJson } from '../../engine/fields/exact-json.ts';
import { type Field, isHookWritable, isKeptIfAbsent, refersToUser } from '../../engine/fields/field.ts';
import { fieldTypeOf, fieldTypes, firstColumn } from '../../engine/fields/field-types.ts';
import { textFormatOf } from '../../engine/fields/formats.ts';
import { customCells, parseInstant } from '../../engine/fields/index.ts';
import { fieldLabel, humanize, inSentence } from '../../engine/fields/labels.ts';
import { isMoney, moneyType } from '../../engine/fields/money.ts';
import { constraintSql, rulesOf } from '../../engine/fields/rules.ts';
import { isStorable, textType } from '../../engine/fields/string.ts';
import { timestampType } from '../../engine/fields/temporal.ts';
import { type FieldType, lookupOf } from '../../engine/fields/type.ts';
import { elementIssue, validateValue, valueIssue } from '../../engine/fields/validate.ts';

/** Returns what an encoder writes for a value in PostgreSQL's text format. */
function encoded(encode: Encoder, text: string): string {
  const source = Buffer.from(text);
  const target = new Uint8Array(6 * source.length + 100);
  return Buffer.from(target.subarray(0, encode(source, 0, source.length, target, 0))).toString();
}

const about = alternativesType(
  ['sales_orders', 'people', 'tags2'].map((resource) => ({ resource, suffix: `_${resource}` })),
);

test('references to one of several resources', () => {
  const order = { resource: 'sales_orders', id: 7 };
  assert.match(about.expected, / whose resource is sales_orders, people or tags2, or null$/);
  assert.equal(encoded(about.csv.encode, '{"resource":"sales_orders","id":7}'), 'sales_orders/7');
  assert.equal(encoded(about.csv.encode, '{"resource":"tags2","id":-7}'), 'tags2/-7');
  for (const text of [
    'sales_orders/7',
    ' sales_orders/7 ',
    'Acme (sales_orders/7)',
    'A (b) (sales_orders/7) ',
  ])
    assert.deepEqual(about.form.parse(text), order, text);
  assert.deepEqual(about.csv.parse('sales_orders/7'), order);
  assert.equal(about.form.parse(' '), undefined);
  for (const text of ['7', 'sales_orders/', 'sales_orders/x', 'sales_orders/9223372036854775808'])
    assert.equal(about.csv.parse(text), text, 'text that validation rejects');
  assert.deepEqual(
    ['people/7', 'leads/7', 'people/9223372036854775807', 'people/9223372036854775808'].map((text) =>
      about.parse?.(text),
    ),
    ['people/7', undefined, 'people/9223372036854775807', undefined],
  );
  assert.deepEqual(about.write?.({ resource: 'people', id: 7 }), [null, '7', null]);
  assert.deepEqual(about.write?.({ resource: 'leads', id: 7 }), []);
});

test('cells are converted to values, and other texts are kept for validation', () => {
  for (const [type, cell, expected] of [
    [fieldTypes.boolean, 'TRUE', true],
    [fieldTypes.boolean, 'False', false],
    [fieldTypes.boolean, 'yes', 'yes'],
    [fieldTypes.integer, '7', 7],
    [fieldTypes.integer, ' 7', ' 7'],
    [fieldTypes.reference, '7', 7],
    [fieldTypes.references, '3;1', [3, 1]],
    [fieldTypes.references, '', []],
    [fieldTypes.references, 'x;1', ['x', 1]],
    [fieldTypes.list, 'a; b;;c', ['a', 'b', 'c']],
    [fieldTypes.list, '', []],
    [fieldTypes.list, '["a;b"," c"]', ['a;b', ' c']],
    [fieldTypes.list, '[a', '[a'],
    [moneyType('EUR'), '-12.50', { amount: -12.5, currency: 'EUR' }],
    [moneyType('EUR'), '12.5 EUR', { amount: 12.5, currency: 'EUR' }],
    [moneyType('EUR'), '-007.5', { amount: -7.5, currency: 'EUR' }],
    [moneyType('EUR'), '00', { amount: 0, currency: 'EUR' }],
    [moneyType('EUR'), '12.5 USD', '12.5 USD'],
    [moneyType('any'), '12.5 USD', { amount: 12.5, currency: 'USD' }],
    [moneyType('any'), '12.5', '12.5'],
    [moneyType('any'), '12.5 usd', '12.5 usd'],
  ] satisfies readonly (readonly [FieldType, string, unknown])[])
    assert.deepEqual(type.csv.parse(cell), expected, cell);
});

test('values are one cell each, from which the same values are read', () => {
  const integers = fieldTypeOf('list', { of: 'integer' });
  for (const [type, json, cell] of [
    [fieldTypes.string, 'a\rb', '"a\rb"'],
    [fieldTypes.string, '', '""'],
    [fieldTypes.list, '["a","b c"]', 'a;b c'],
    [fieldTypes.list, '["a;b"]', '"[""a;b""]"'],
    [fieldTypes.list, '["[a","b"]', '"[""[a"",""b""]"'],
    [fieldTypes.list, '[" a","b"]', '"["" a"",""b""]"'],
    [fieldTypes.list, '["a\\nb"]', '"[""a\\nb""]"'],
    [fieldTypes.list, '[]', '""'],
    [integers, '[12345678901234567890,-7]', '12345678901234567890;-7'],
    [fieldTypes.references, '[1,23,4]', '1;23;4'],
    [fieldTypes.references, '[]', '""'],
    [moneyType('EUR'), '{"amount":-12.50,"currency":"EUR"}', '-12.50'],
    [moneyType('any'), '{"amount":-12.50,"currency":"EUR"}', '-12.50 EUR'],
  ] satisfies readonly (readonly [FieldType, string, string])[])
    assert.equal(encoded(type.csv.encode, json), cell, json);
  const { encode, cells } = customCells(
    ['a', 'b', 'c', 'd', 'e'].map((key) => ({ custom: { resource: 'leads', key } })),
  );
  assert.equal(cells, 5);
  assert.equal(
    encoded(encode, '{"a":null,"b":"x,y","c":"","e":12345678901234567890}'),
    ',"x,y","",,12345678901234567890',
  );
});

test('forms contain texts from which the same values are read', () => {
  for (const [type, value, text] of [
    [fieldTypes.list, ['a', 'b c'], 'a\nb c'],
    [fieldTypes.list, ['a ', 'b'], '["a ","b"]'],
    [fieldTypes.list, ['[a'], '["[a"]'],
    [fieldTypes.list, ['a\nb'], '["a\\nb"]'],
    [moneyType('EUR'), { amount: -12.5, currency: 'EUR' }, '-12.5'],
    [moneyType('any'), { amount: -12.5, currency: 'EUR' }, '-12.5 EUR'],
    [fieldTypes.json, parseExactJson('{"a":12345678901234567890}'), '{\n  "a": 12345678901234567890\n}'],
  ] satisfies readonly (readonly [FieldType, unknown, string])[]) {
    assert.equal(type.form.format?.(value), text);
    assert.deepEqual(type.form.parse(text), value, text);
  }
  for (const [type, text, expected] of [
    [fieldTypes.integer, ' 7 ', 7],
    [fieldTypes.integer, ' ', undefined],
    [fieldTypes.integer, '7 a', '7 a'],
    [fieldTypes.reference, 'ID 12', 12],
    [fieldTypes.reference, '12', 12],
    [fieldTypes.references, '3, 1 2', [3, 1, 2]],
    [fieldTypes.date, ' 2026-03-01 ', '2026-03-01'],
    [fieldTypes.date, ' ', undefined],
    [fieldTypes.timestamp, 'soon ', 'soon'],
    [fieldTypes.json, ' ', undefined],
    [textType, 'a\r\nb\r\nc', 'a\nb\nc'],
  ] satisfies readonly (readonly [FieldType, string, unknown])[])
    assert.deepEqual(type.form.parse(text), expected, text);
});

test('pages show values on one line', () => {
  assert.equal(documentFormats.display?.('{\n  "a": 1,\n  "b": 2\n}', 'en'), '{ "a": 1, "b": 2 }');
  assert.equal(fieldTypes.list.display?.('a\nb\nc', 'en'), 'a, b, c');
  assert.equal(moneyType('GBP').display?.('1234.5', 'de'), '1.234,5 GBP');
  assert.equal(moneyType('any').display?.('1234.5 USD', 'en'), '1,234.5 USD');
});

test('query parameters', () => {
  const price = moneyType('any');
  assert.deepEqual(
    ['eur', 'EUR', 'EU', 'XXZ'].map((text) => price.currency?.parse?.(text)),
    [...(['EUR', 'EUR', undefined, undefined] as const)],
  );
  for (const [json, bound] of [
    ['{"amount":-12.50,"currency":"EUR"}', '-12.50'],
    ['{"amount":7,"currency":"EUR"}', '7'],
  ] as const)
    assert.equal(price.toBound?.(json), bound);
  assert.deepEqual(
    ['-1.5', '1e3', '1.', `${'1'.repeat(101)}`].map((text) => fieldTypes.number.parse?.(text)),
    ['-1.5', undefined, undefined, undefined],
  );
  assert.deepEqual(
    ['start', 'end'].map((part) => timestampType.parseDay?.('2026-03-01', part as 'start' | 'end')),
    ['2026-03-01T00:00:00Z', '2026-03-01T23:59:59.999999Z'],
  );
  assert.equal(timestampType.parse?.('2026-03-01T09:30:00 01:00'), '2026-03-01T08:30:00Z');
  assert.equal(timestampType.toBound?.('2026-03-01T09:30:00.5+01:00'), '2026-03-01T08:30:00.5Z');
  assert.deepEqual(['2026-03-01', '2026-03-01T09:30:00+01:00', '2026-02-29', ''].map(parseInstant), [
    '2026-03-01T00:00:00Z',
    '2026-03-01T08:30:00Z',
    undefined,
    undefined,
  ]);
});

test('texts are compared by the keys that PostgreSQL computes', () => {
  for (const [lookup, text, key] of [
    ['caseless', 'ÄDA@X.Example', 'Äda@x.example'],
    ['caseless', 'İ', 'İ'],
    ['digits', '+49 (0)171', '490171'],
    ['digits', '0049', '49'],
    ['digits', '000171', '0171'],
    ['digits', 'none', ''],
    ['compact', 'DE89 3704 0044', 'de8937040044'],
    ['exact', ' A ', ' A '],
  ] as const)
    assert.equal(lookupOf(lookup).keyOf(text), key, `${lookup} ${text}`);
  const { isSelective } = lookupOf('digits');
  assert.deepEqual(
    ['none', '00', '', '110'].map((text) => isSelective?.(text)),
    [false, false, false, true],
  );
});

test('numbers at the limits of their types', () => {
  for (const [text, expected] of [
    ['9223372036854775807', true],
    ['9223372036854775808', false],
    ['-9223372036854775808', true],
    ['-9223372036854775809', false],
    ['-0', false],
    ['01', false],
  ] as const)
    assert.equal(int64(text) !== undefined, expected, text);
  assert.deepEqual(['1', '0', '-1', '01', '9'.repeat(18), '1'.repeat(19), 1, undefined].map(isRowId), [
    true,
    false,
    false,
    false,
    true,
    false,
    false,
    false,
  ]);
  assert.deepEqual([fieldTypes.int64.write?.(-0), decimalText(-0)], [['0'], '0']);
});

test('strings that PostgreSQL cannot store', () => {
  for (const [text, expected] of [
    ['', true],
    ['😀', true],
    ['\ud83d', false],
    ['a\0', false],
  ] as const)
    assert.equal(isStorable(text), expected);
});

test('the first error of a document, with its location', () => {
  const long = 'x'.repeat(100);
  const check = documentIssue({
    type: 'object',
    properties: {
      '~1': { type: 'string' },
      'a/b': { type: 'array', items: { type: ['integer', 'null'] } },
      mail: { type: 'string', format: 'email' },
      kind: { enum: ['a', 1] },
      part: { type: 'object', additionalProperties: false, required: ['id'], properties: { id: {} } },
      rest: { type: 'object', unevaluatedProperties: false },
      [long]: { type: 'boolean' },
    },
  });
  for (const [value, expected] of [
    [{ '~1': 1 }, '.~1 must be a string'],
    [{ 'a/b': [1, 2.5] }, '.a/b[1] must be integer or null'],
    [{ mail: 'not an address' }, undefined],
    [{ kind: 'b' }, '.kind must be one of "a", 1'],
    [{ part: {} }, '.part must contain "id"'],
    [{ part: { id: 1, [long]: 1 } }, `.part must not contain "${'x'.repeat(60)}"`],
    [{ rest: { other: 1 } }, '.rest must not contain "other"'],
    [{ [long]: 1 }, `.${'x'.repeat(60)} must be true or false`],
    [parseExactJson('{"a/b":[12345678901234567890]}'), undefined],
  ] as const) {
    const issue = check(value);
    assert.equal(issue && `${issue.path} ${issue.reason}`, expected);
  }
  const unlimited = documentIssue(undefined);
  const size = 'must be a JSON object or array of at most 64 KiB';
  const content = 'must not contain U+0000, lone surrogates or numbers with more than 100 digits';
  for (const [value, reason] of [
    [{ a: '€'.repeat(30_000) }, size],
    [{ a: '€'.repeat(20_000) }, undefined],
    [parseExactJson('12345678901234567890'), size],
    [[{ '\ud800': 1 }], content],
    [{ a: { b: '\0' } }, content],
    [parseExactJson(`{"a":[${'1'.repeat(101)}]}`), content],
    [parseExactJson(`{"a":[${'1'.repeat(100)}]}`), undefined],
  ] as const)
    assert.equal(unlimited(value)?.reason, reason);
  assert.match(schemaIssue({ type: 'text' }) ?? '', /^\/type must be /);
  assert.equal(schemaIssue({ type: 'string', format: 'email' }), undefined);
});

test('names become labels', () => {
  const words =
    'ai api b2b b2c bic ceo cfo crm cto csv eta eu faq gdpr gps html http https iban id ip isbn iso json kpi nda pdf po roi seo sku sla sms sso ssn ui uri url utc utm vat vin vip xml';
  for (const word of words.split(' ')) assert.equal(humanize(`main_${word}`), `Main ${word.toUpperCase()}`);
  const names = 'GitHub HubSpot IDs LinkedIn PayPal TikTok URLs WhatsApp YouTube';
  for (const name of names.split(' ')) assert.equal(humanize(`${name.toLowerCase()}_main`), `${name} main`);
  for (const [label, expected] of [
    ['Close date', 'close date'],
    ['LinkedIn URL', 'LinkedIn URL'],
    ['VAT ID', 'VAT ID'],
    ['Ö', 'ö'],
  ] as const)
    assert.equal(inSentence(label), expected);
  const labelOf = (name: string, type: FieldType) =>
    fieldLabel({ name, type } as Parameters<typeof fieldLabel>[0]);
  assert.deepEqual(
    [
      labelOf('account_id', fieldTypes.reference),
      labelOf('tag_ids', fieldTypes.references),
      labelOf('owner_id', fieldTypes.user),
      labelOf('external_id', fieldTypes.string),
    ],
    ['Account', 'Tags', 'Owner', 'External ID'],
  );
});

test('formats', () => {
  const { isValid } = textFormatOf('country');
  const letters = [...'ABCDEFGHIJKLMNOPQRSTUVWXYZ'];
  const countries = letters.flatMap((first) => letters.map((second) => first + second)).filter(isValid);
  assert.equal(countries.length, 249, 'the countries of ISO 3166-1');
  const url = textFormatOf('url');
  assert.deepEqual(
    ['https://x.example/', 'HTTPS://X.EXAMPLE', 'http://[', 'https://a b', 'ftp://x.example'].map(
      url.isValid,
    ),
    [true, true, false, false, false],
  );
  const zone = textFormatOf('iana_timezone');
  assert.deepEqual(['Europe/Berlin', 'europe/berlin', '+01:00', 'Mars/Base'].map(zone.isValid), [
    ...([true, true, false, false] as const),
  ]);
  assert.deepEqual(
    [
      isMoney({ amount: 1, currency: 'EUR' }, 'any'),
      isMoney({ amount: 1, currency: 'eur' }, 'any'),
      isMoney({ amount: 1, currency: 'USD' }, 'EUR'),
      isMoney({ amount: '1', currency: 'EUR' }, 'EUR'),
    ],
    [true, false, false, false],
  );
});

const ruled = {
  ...{ min: 2, max: 9, minLength: 1, maxLength: 5, pattern: '^a', maxItems: 1 },
  ...{
    format: 'email' as const,
    values: { list: ['a', "it's"], isSuggestion: false, accepted: ['a', "it's", ''] },
  },
};

test('rules say what a value must be, and how it violates them', () => {
  assert.deepEqual(
    rulesOf(ruled).map(({ key, must, violation, reason }) => [key, must, violation, reason]),
    [
      ['min', 'be at least 2', 'is less than 2', { kind: 'min', limit: 2 }],
      ['max', 'be at most 9', 'is greater than 9', { kind: 'max', limit: 9 }],
      [
        'min_length',
        'be at least 1 character long',
        'is shorter than 1 character',
        { kind: 'min_length', limit: 1 },
      ],
      [
        'max_length',
        'be at most 5 characters long',
        'is longer than 5 characters',
        { kind: 'max_length', limit: 5 },
      ],
      ['pattern', 'match ^a', 'does not match ^a', { kind: 'pattern', pattern: '^a' }],
      [
        'format',
        'be an email address',
        'is not an email address',
        { kind: 'expected', expects: { type: 'email' } },
      ],
      ['max_items', 'contain at most 1 value', 'contains more than 1 value', { kind: 'max_items', limit: 1 }],
      ['closed', "be one of a, it's", "is not one of a, it's", { kind: 'closed', values: ['a', "it's"] }],
    ],
  );
  const listed = rulesOf({ values: ruled.values, type: fieldTypes.list }).map(({ must, violation }) => [
    must,
    violation,
  ]);
  assert.deepEqual(listed, [["contain only a, it's", "contains a value other than a, it's"]]);
});

test('a rule that accepts every value that it accepted before is not stricter', () => {
  const isLooserThan = Object.fromEntries(
    rulesOf(ruled).map(({ key, isLooserThan: looser }) => [key, looser]),
  );
  for (const [key, same, stricter, looser] of [
    ['min', 2, 3, 1],
    ['max', 9, 8, 10],
    ['min_length', 1, 2, 0],
    ['max_length', 5, 4, 6],
    ['max_items', 1, 0, 2],
    ['closed', ['a', "it's", ''], ['a'], ['a', 'b']],
  ] as const)
    assert.deepEqual(
      [same, stricter, looser].map((previous) => isLooserThan[key]?.(previous)),
      [true, true, false],
      key,
    );
  assert.deepEqual(
    ['^a', '^b', undefined].map((previous) => isLooserThan.pattern?.(previous)),
    [true, false, false],
  );
});

test('values are validated in characters, and empty texts meet every rule but those for all texts', () => {
  const text = { ...{ name: 'code', type: fieldTypes.string, required: false, readOnly: false } };
  for (const [rules, value, expected] of [
    [{ minLength: 2 }, '😀', 'must be at least 2 characters long'],
    [{ minLength: 2 }, '😀😀', undefined],
    [{ minLength: 2 }, '', undefined],
    [{ maxLength: 2 }, '😀😀', undefined],
    [{ maxLength: 2 }, '😀😀😀', 'must be at most 2 characters long'],
    [{ pattern: '[0-9]' }, 'a1b', undefined],
    [{ pattern: '[0-9]' }, '', undefined],
    [{ pattern: '[0-9]' }, 'a', 'must match [0-9]'],
    [{ format: 'email' as const }, '', undefined],
    [{}, 'a\0', 'must not contain U+0000 or lone surrogates'],
    [{ minLength: 2, message: 'Enter a code.' }, 7, 'must be a string'],
    [{ required: true }, null, 'must be a string'],
  ] as const)
    assert.equal(validateValue({ ...text, ...rules }, value), expected, JSON.stringify([rules, value]));
  const account = { ...text, name: 'account_id', type: fieldTypes.reference };
  assert.equal(validateValue(account, 'x'), 'must be the id of a record (an integer) or null');
  assert.equal(
    validateValue({ ...account, required: true }, null),
    'must be the id of a record (an integer)',
  );
});

test('a column belongs to the field before its suffix, if there is one', () => {
  const names = ['due', 'due_offset', 'time_offset', 'price', 'price_Currency'];
  assert.deepEqual(
    names.map((name) => firstColumn(name, names)),
    ['due', 'due', 'time_offset', 'price', 'price'],
  );
});

test('issues say what is expected, or which rule of a field with its own message is violated', () => {
  const field = {
    ...{ name: 'code', type: fieldTypes.string, required: true, readOnly: false },
    minLength: 2,
  };
  const issueOf = (keyword: string, more: object = {}) => {
    const { message, [reasonKey]: reason } = valueIssue({ keyword }, { ...field, ...more });
    return [message, reason];
  };
  assert.deepEqual(issueOf('required'), ['code is required', { kind: 'required' }]);
  assert.deepEqual(issueOf('unicode'), [
    'code must not contain U+0000 or lone surrogates',
    { kind: 'characters' },
  ]);
  assert.deepEqual(issueOf('type'), [
    'code must be a string',
    { kind: 'expected', expects: { type: 'string' } },
  ]);
  assert.deepEqual(issueOf('leastLength'), [
    'code must be at least 2 characters long',
    { kind: 'min_length', limit: 2 },
  ]);
  const message = 'Enter a code.';
  assert.deepEqual(issueOf('leastLength', { message }), [message, { kind: 'message' }]);
  assert.deepEqual(issueOf('type', { message })[0], 'code must be a string');
  const tags = elementIssue({ name: 'tags', type: fieldTypes.list }, '2');
  assert.deepEqual(
    [tags.field, tags.message, tags[reasonKey]],
    [
      'tags[2]',
      'tags[2] must be a string of at most 500 characters',
      { kind: 'expected', expects: { type: 'text', maxLength: 500 } },
    ],
  );
  assert.deepEqual(fieldTypes.list.expects, { type: 'list' });
  assert.equal(customValuesType.integrityMessage, 'must have at most 102,400 bytes in total');
});

test('values at the limits of their types', () => {
  for (const [type, value, isValid] of [
    [fieldTypes.integer, 2 ** 31 - 1, true],
    [fieldTypes.integer, 2 ** 31, false],
    [fieldTypes.integer, -(2 ** 31), true],
    [fieldTypes.integer, -(2 ** 31) - 1, false],
    [fieldTypes.list, ['x'.repeat(500)], true],
    [fieldTypes.list, ['x'.repeat(501)], false],
    [fieldTypes.list, ['a\0'], false],
    [fieldTypes.references, Array.from({ length: 100 }, (_, index) => index), true],
    [fieldTypes.references, Array.from({ length: 101 }, (_, index) => index), false],
  ] satisfies readonly (readonly [FieldType, unknown, boolean])[])
    assert.equal(
      validateValue({ name: 'x', type, required: false, readOnly: false }, value) === undefined,
      isValid,
      String(value).slice(0, 20),
    );
});

test('constraints of the table accept what the API accepts', () => {
  const accepted = ["it's a 'b'", ''];
  const values = { list: accepted, isSuggestion: false, accepted };
  assert.equal(constraintSql({ values }, 'x'), "x in ('it''s a ''b''', '')");
  assert.equal(
    constraintSql({ values, type: fieldTypes.list }, 'x'),
    "x <@ array['it''s a ''b''', '']::text[]",
  );
  assert.equal(constraintSql({ minLength: 2, maxLength: 5 }, 'x'), "(x = '' or length(x) >= 2)");
  assert.equal(
    constraintSql({ min: 1, max: 5, maxItems: 2 }, 'x'),
    'x >= 1 and x <= 5 and cardinality(x) <= 2',
  );
  assert.equal(constraintSql({ maxLength: 5 }, 'x'), undefined);
  for (const [format, text] of [
    ['url', 'HTTPS://X.EXAMPLE'],
    ['email', 'ÄDA@x.example'],
    ['phone', '+49 (0)171/12-3.4'],
    ['iban', 'de89 3704'],
    ['country', 'de'],
    ['currency', 'eur'],
    ['iana_timezone', 'Etc/GMT+1'],
  ] as const) {
    const { shape, examples } = textFormatOf(format);
    const pattern = new RegExp(shape.replaceAll('[:space:]', '\\s'));
    for (const value of [text, ...examples]) assert.match(value, pattern);
  }
});

test('the OpenAPI document limits the amount of a price, and otherwise the value', () => {
  const limits = { min: 1, max: 5 };
  const keywordsOf = (type: FieldType) => rulesOf({ ...limits, type }).map(({ json }) => json);
  assert.deepEqual(keywordsOf(fieldTypes.integer), [{ minimum: 1 }, { maximum: 5 }]);
  assert.deepEqual(keywordsOf(fieldTypes.money), [
    { properties: { amount: { minimum: 1 } } },
    { properties: { amount: { maximum: 5 } } },
  ]);
});

test("the currency of an amount is as visible as the amount, and has the amount's label", () => {
  const price: Field = {
    ...{
      name: 'price',
      location: 'x.yaml:1:1',
      typeName: 'money' as const,
      type: fieldTypes.money,
      description: '',
    },
    ...{ readOnly: false, nullable: true, required: false, default: null, unique: false },
    ...{ sensitive: true, group: 'finance' },
  };
  const { name, label, sensitive, group, readOnly, nullable } = currencyField(price) ?? assert.fail();
  assert.deepEqual(
    { name, label, sensitive, group, readOnly, nullable },
    {
      ...{ name: 'price_Currency', label: 'Price: currency', sensitive: true, group: 'finance' },
      ...{ readOnly: true, nullable: true },
    },
  );
  assert.equal(currencyField({ ...price, type: moneyType('EUR') }), undefined);
});

test('migrations convert IDs only of records and members of the organization', () => {
  const target = {
    referredTable: 'firms',
    organization: 'r.org',
    isMember: (user: string) => `member(${user})`,
  };
  assert.match(
    fieldTypes.reference.fromText?.fits('x', target) ?? '',
    /from firms _r where _r\."organization_id" = r\.org and _r\."id" = .* else false end$/,
  );
  assert.match(fieldTypes.user.fromText?.fits('x', target) ?? '', /then member\(.*\) else false end$/);
});

test('what the properties of a field say about its values', () => {
  const field = { type: fieldTypes.int64, readOnly: true };
  for (const [set, expected] of [
    ['creator', true],
    ['editor', true],
    ['id', false],
    [undefined, false],
  ] as const)
    assert.equal(refersToUser({ type: field.type, ...(set && { set }) }), expected, set);
  assert.equal(refersToUser({ type: fieldTypes.user }), true);
  const sequence = { format: '{0}', prefix: '', digits: 1, suffix: '' };
  const written = {} as Parameters<typeof isHookWritable>[0];
  assert.equal(isHookWritable(written), true);
  for (const property of [{ sequence }, { set: 'created' as const }, { through: 'account_id' }])
    assert.equal(isHookWritable({ ...written, ...property }), false, JSON.stringify(property));
  assert.deepEqual(
    [
      isKeptIfAbsent({ ...field, type: fieldTypes.references }),
      isKeptIfAbsent({ ...field, readOnly: false, set: 'creator' }),
      isKeptIfAbsent({ ...field, isKept: true }),
      isKeptIfAbsent(field),
    ],
    [true, true, true, false],
  );
});

test('SQL expressions compare whole values, and convert texts completely', () => {
  const { string, timestamp, date, boolean, integer, number, references, list } = fieldTypes;
  const email = { comparison: 'caseless' } as const;
  const money = moneyType('any');
  const target = { referredTable: '', organization: '', isMember: () => 'true' };
  for (const [sql, ...parts] of [
    [string.startsWith?.('c', '$1'), 'starts_with(c, $1::text)'],
    [string.equals?.('c', '$1'), 'and c = $1::text'],
    [string.among?.('c', '$1', { lookup: 'caseless' }), 'and c = any($1::text[])'],
    [string.equals?.('c', '$1', email), "and lower(c) <> ''"],
    [string.among?.('c', '$1', email), "and lower(c) <> ''"],
    [string.distinct?.('c').keys.join(), 'then md5(c) else'],
    [timestamp.read?.(['c']), "|| 'Z'"],
    [timestamp.read?.(['c', 'o']), "|| coalesce(o, 'Z')"],
    [timestamp.fromText?.columns('x')[1], 'upper(coalesce('],
    [timestamp.fromText?.fits('x', target), '1 month - 1 day'],
    [date.fromText?.fits('x', target), '([Tt ]00:00:00([.]0+)?'],
    [boolean.fromText?.columns('x')[0], "lower(x) in ('true', '1')"],
    [integer.fromText?.fits('x', target), 'between -2147483648 and 2147483647'],
    [integer.calculated?.('x'), 'x >= -2147483648::numeric and x < 2147483648::numeric'],
    [number.calculated?.('x'), 'trim_scale(round(x, 16))'],
    [references.combine?.('a', 'b'), 'order by 1)'],
    [list.fromText?.fits('x', target), 'length(x) <= 500'],
    [money.asText?.(['a', 'c']), "a || ' ' || c"],
    [money.fromText?.columns('x')[1], `'([A-Z]{3})"?[}]?$'`],
    [money.integrity?.(['a', 'c'], false), 'c is not null and c ~'],
    [customValuesType.integrity?.(['c'], true), 'octet_length(c::text) <= 1024000'],
    [customValuesType.integrity?.(['c'], false), 'octet_length(c::text) <= 102400'],
    [customValuesType.combine?.('a', 'b'), 'b || (select', `where _v <> '""'`],
  ] satisfies readonly (readonly [string | undefined, ...string[]])[])
    for (const part of parts) assert.ok(sql?.includes(part), `${part} in ${sql}`);
});
