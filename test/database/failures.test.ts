// Errors of the database: the rule that rejected a write, and the reason for a failure.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  databaseFailure,
  failureDetails,
  failureReason,
  isDatabaseError,
  sqlState,
} from '../../engine/database/failures.ts';
import { connectionErrorText } from '../../engine/database/route.ts';
import { errors } from '../../engine/errors.ts';

test('only rules that the operator added reject a write', () => {
  const trigger = 'PL/pgSQL function leads_before() line 2 at RAISE';
  for (const [properties, rule] of [
    [{ code: '23514', table: 'leads', constraint: 'leads_no_check' }, 'leads_no_check'],
    [{ code: '23502', table: 'leads', column: 'company' }, 'NOT NULL constraint on company'],
    [{ code: 'P0001', where: trigger }, 'leads_before'],
    [{ code: 'P0004', where: trigger }, 'leads_before'],
    [{ code: '45ABC', where: trigger }, 'leads_before'],
    [{ code: '27000', where: trigger }, 'leads_before'],
    [{ code: 'P0001', where: 'PL/pgSQL function inline_code_block line 1 at RAISE' }, 'a trigger'],
    [{ code: '45000' }, 'a trigger'],
    // Only the innermost function counts.
    [{ code: 'P0001', where: `SQL statement "select 1"\n${trigger}` }, 'a trigger'],
    // Errors of the engine or the server.
    [{ code: '23514', table: 'crm_ledger', constraint: 'ledger_check' }, undefined],
    [{ code: '23514', table: 'leads', constraint: 'crm_check' }, undefined],
    [{ code: '23505', table: 'leads', constraint: 'leads_pkey' }, undefined],
    [{ code: '23503', table: 'leads', constraint: 'leads_account_id_foreign' }, undefined],
    [{ code: '23514', table: 'leads', constraint: 'leads_name_filled' }, undefined],
    [{ code: '23514' }, undefined],
    [{ code: 'P0002', where: trigger }, undefined],
    [{ code: '22012', where: trigger }, undefined],
  ] as const) {
    const { status, extra } = databaseFailure(Object.assign(new Error('failed'), properties));
    const expected = rule === undefined ? [500, undefined] : [400, rule];
    assert.deepEqual([status, extra.constraint], expected, JSON.stringify(properties));
  }
  for (const code of ['57014', '55P03']) assert.equal(databaseFailure({ code }).status, 503, code);
});

test('the reason for a failure is one word', () => {
  for (const [error, reason] of [
    [{ code: '53300', message: 'sorry, too many clients already' }, '53300'],
    [{ code: 'ECONNREFUSED', message: 'connect ECONNREFUSED' }, 'ECONNREFUSED'],
    [{ code: 'EPIPE' }, 'EPIPE'],
    [{ code: 'EHOSTUNREACH' }, 'EHOSTUNREACH'],
    [{ code: 'ENETUNREACH' }, 'ENETUNREACH'],
    [{ code: 'ETIMEDOUT' }, 'ETIMEDOUT'],
    [{ code: 'ECONNRESET' }, 'ECONNRESET'],
    [{ message: 'timeout exceeded when trying to connect' }, 'no_connection_in_time'],
    [{ message: 'timeout expired' }, 'connect_timeout'],
    [{ message: 'Connection terminated due to connection timeout' }, 'connect_timeout'],
    [{ message: 'Connection terminated: no response in time' }, 'no_response_in_time'],
    [{ message: 'Connection terminated: the server is read-only' }, 'read_only'],
    [
      { message: 'Connection terminated: the password file /p cannot be read: it does not exist' },
      'password_file_unreadable',
    ],
    [{ message: 'Connection terminated unexpectedly' }, 'connection_lost'],
    [{ message: 'Client was closed and is not queryable' }, 'connection_lost'],
    [{ message: 'Client has encountered a connection error and is not queryable' }, 'connection_lost'],
  ] as const) {
    assert.equal(failureReason(error), reason);
    assert.ok(isDatabaseError(error), reason);
  }
  for (const error of [{ code: 'ENOENT', message: 'no such file' }, { message: 'timeout' }, undefined]) {
    assert.equal(failureReason(error), 'unknown');
    assert.ok(!isDatabaseError(error));
  }
});

test('background work is logged with the reason of a failure and its code, without its message', () => {
  for (const [error, reason, code] of [
    [new Error('timeout exceeded when trying to connect'), 'no_connection_in_time', undefined],
    [Object.assign(new Error('a secret'), { code: '57P01' }), '57P01', '57P01'],
    [Object.assign(new Error('a secret'), { code: 'ECONNREFUSED' }), 'ECONNREFUSED', 'ECONNREFUSED'],
    // Failures that the engine has converted.
    [databaseFailure(Object.assign(new Error('a secret'), { code: '53300' })), '53300', '53300'],
    [databaseFailure(Object.assign(new Error('a secret'), { code: '57014' })), '57014', '57014'],
    [databaseFailure(new Error('timeout expired')), 'connect_timeout', undefined],
    [errors.internal(new TypeError('a secret')), 'TypeError', undefined],
    [errors.overloaded(), 'overloaded', 'overloaded'],
    // Other failures.
    [Object.assign(new Error('a secret'), { code: 'ENOENT' }), 'ENOENT', 'ENOENT'],
    [new TypeError('a secret'), 'TypeError', undefined],
    [AbortSignal.abort().reason, 'AbortError', undefined],
    [undefined, 'unknown', undefined],
  ] as const) {
    const { stack: _, ...details } = failureDetails(error);
    assert.deepEqual(details, { reason, code });
  }
});

test('background work is logged with the lines of code of a bug, without its message', () => {
  const bug = new TypeError('a secret\n    at a secret');
  for (const error of [bug, errors.internal(bug)]) {
    const { stack = [] } = failureDetails(error);
    assert.match(stack[0] ?? '', /test\/database\/failures\.test\.ts:\d+/);
    assert.doesNotMatch(String(stack), /secret/);
  }
  for (const code of ['53300', 'ECONNREFUSED'])
    assert.equal(failureDetails(Object.assign(new Error(), { code })).stack, undefined);
});

test('a code of the operating system is not a state that the server reports', () => {
  for (const code of ['53300', '57P01', '0A000']) assert.equal(sqlState({ code }), code);
  for (const code of ['EPIPE', 'ENOENT', '57p01', '570140', 57014, undefined])
    assert.equal(sqlState({ code }), undefined, String(code));
  assert.equal(sqlState(undefined), undefined);
});

test('a failed connection is described by its message, or by its code', () => {
  for (const [error, text] of [
    [
      { code: 'ECONNREFUSED', message: 'connect ECONNREFUSED 127.0.0.1:1' },
      'connect ECONNREFUSED 127.0.0.1:1',
    ],
    // The error of several addresses of a host.
    [{ code: 'ECONNREFUSED', message: '' }, 'ECONNREFUSED'],
    [undefined, 'no reason given'],
  ] as const)
    assert.equal(connectionErrorText(error), text);
});
