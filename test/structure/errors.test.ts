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
