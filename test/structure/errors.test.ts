// Contract for every error in the table. New entries are covered without a change here.
import assert from 'node:assert/strict';
import { STATUS_CODES } from 'node:http';
import { test } from 'node:test';
import { errorCodes, errorEntries, errorJson, errors, HttpError } from '../../engine/errors.ts';

/** An entry with the properties that all entries can have. */
interface Entry {
  readonly status: number;
  readonly code: string;
  readonly meaning?: string;
  readonly text?: string;
  readonly hint?: string;
  readonly detail?: unknown;
}
const entries = Object.entries<Entry>(errorEntries);

for (const [name, { status, code, text, hint, detail }] of entries) {
  test(`${name}: has a status, a code with one meaning, and a text`, () => {
    assert.ok(status >= 400 && Object.hasOwn(STATUS_CODES, status));
    assert.match(code, /^[a-z]+(_[a-z]+)*$/);
    const meanings = entries.filter(([, other]) => other.code === code && other.meaning !== undefined);
    assert.equal(meanings.length, 1, `one entry with the code ${code} has its meaning`);
    assert.ok(text !== undefined || detail !== undefined);
    // The text is a sentence without a period, because the hint or the end of the message follows.
    assert.doesNotMatch(text ?? '', /[.?]$/);
    assert.match(hint ?? 'Try again.', /^[A-Z].*[.?]$/);
  });
}

test('every code has a meaning', () => {
  assert.deepEqual(
    Object.keys(errorCodes).toSorted(),
    [...new Set(entries.map(([, { code }]) => code))].toSorted(),
  );
});

test('the hint is the last sentence of the message, and a separate key of the response', () => {
  const error = new HttpError(503, 'overloaded', 'The server is busy', { hint: 'Try again.' });
  assert.deepEqual([error.text, error.extra.hint], ['The server is busy', 'Try again.']);
  assert.equal(
    errorJson(error, {}),
    '{"error":"The server is busy. Try again.","code":"overloaded","hint":"Try again."}',
  );
});

test('an error with a single issue has its hint', () => {
  const issue = { field: 'mail', message: 'mail is unknown. Use email.', hint: 'Use email.' };
  const [one, two] = [[issue], [issue, { ...issue, hint: 'Use it.' }]].map(
    (fields) => JSON.parse(errorJson(errors.invalidFields(fields), {})) as { readonly hint?: string },
  );
  assert.deepEqual([one?.hint, two?.hint], ['Use email.', undefined]);
});

test('messages of issues are joined up to 1,000 characters', () => {
  const textOf = (...messages: readonly string[]) =>
    errors.invalidFields(messages.map((message) => ({ field: 'a', message }))).text;
  assert.equal(textOf('One.', 'two.', 'three.'), 'One; two; three.');
  const long = 'x'.repeat(995);
  assert.equal(textOf(long, 'y'.repeat(5)), `${long}; yyyyy`);
  assert.equal(textOf(long, 'y'.repeat(6), 'z'), `${long}; and 2 more`);
  assert.equal(textOf(long.repeat(2)), long.repeat(2), 'the first message is complete');
});

test('messages explain the cause, with singular and plural numbers', () => {
  const kept = 'Records that it has already created or updated are kept.';
  const check = 'Check the list before you import the rest of the file.';
  const merge = 'The merge cannot be undone:';
  const refers = { resource: 'order_lines', field: 'order_id', isMore: false };
  const change = { hint: 'Delete these records or change their references first.' };
  const invalid = errors.invalidFields([{ field: 'a', message: 'a is wrong' }]);
  for (const [{ message }, expected] of [
    [
      errors.customFieldExists('size', true),
      'The custom field "size" already exists. It was deleted, and can be restored.',
    ],
    [errors.customFieldExists('size', false), 'The custom field "size" already exists. Choose another name.'],
    [errors.importInterrupted(0), `The import was interrupted. ${kept} ${check}`],
    [errors.importInterrupted(1), `The import was interrupted after at least 1 line. ${kept} ${check}`],
    [errors.importInterrupted(2), `The import was interrupted after at least 2 lines. ${kept} ${check}`],
    [errors.importTooSlow(1), `The import took longer than 1 minute. ${kept}`],
    [errors.importTooSlow(60), `The import took longer than 60 minutes. ${kept}`],
    [errors.mergeNotUndoable({ kind: 'notInTrash', id: '7' }), `${merge} record 7 is not in the trash`],
    [errors.mergeNotUndoable({ kind: 'exists', id: '7' }), `${merge} record 7 exists`],
    [
      errors.mergeNotUndoable({ kind: 'tooOld', days: 30 }),
      `${merge} the records were not merged in the last 30 days`,
    ],
    [
      errors.mergeNotUndoable({ kind: 'fieldsChanged', resource: 'leads' }),
      `${merge} the fields of leads have changed since`,
    ],
    [errors.mergeNotUndoable({ kind: 'notWritable' }), `${merge} it changed fields that you cannot write`],
    [
      errors.mergeNotUndoable({ kind: 'missingReference' }),
      `${merge} a record to which the other record refers no longer exists`,
    ],
    [
      errors.mergeConflict('leads', []),
      'Several leads would have the same unique values. Delete or change one of these records first.',
    ],
    [errors.itemsRejected(new Map([['records[2]', invalid]])), '1 record is invalid: records[2]: a is wrong'],
    [
      errors.referenced('sales_order', [
        { ...refers, count: 0 },
        { ...refers, count: 1000 },
        { ...refers, count: 1000, isMore: true },
      ]),
      `This sales order cannot be deleted because other records refer to it: order_lines.order_id, order_lines.order_id (1,000), order_lines.order_id (more than 1,000). ${change.hint}`,
    ],
    [errors.locked('sales_order'), 'This sales order is locked and cannot be changed'],
    [
      errors.invalidTransition('a', undefined, undefined, []),
      'a of a new record cannot be empty. No other value is allowed',
    ],
    [
      errors.invalidTransition('a', { value: undefined }, 'b', ['c', 'd']),
      'a cannot change from no value to "b". Allowed: c, d',
    ],
  ] as const)
    assert.equal(message, expected);
  const { headers } = errors.agentLimitReached('read', 5, new Date(0)).extra;
  assert.deepEqual(headers, { 'retry-after': '1' }, 'never in the past');
});
