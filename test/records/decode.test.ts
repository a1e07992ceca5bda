// Statement rows are decoded by column name and type.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { cell, rowDecoder, rowKinds } from '../../engine/sql/decode.ts';

describe('rows', () => {
  const columns = {
    json: cell.encoded,
    id: cell.text,
    key: cell.nullableText,
    count: cell.count,
    isLast: cell.flag,
  };

  for (const [row, expected] of [
    [
      [Buffer.from('{}'), '7', 'a', '20', 'true'],
      { json: Buffer.from('{}'), id: '7', key: 'a', count: 20, isLast: true },
    ],
    [['{}', Buffer.from('7'), null, '0', null], { json: '{}', id: '7', key: null, count: 0, isLast: false }],
    [[null, '7', '', '0', 'false', 'x'], { json: '', id: '7', key: '', count: 0, isLast: false }],
  ] as const) {
    test(JSON.stringify(row), () => assert.deepEqual(rowDecoder(columns)(row), expected));
  }

  test('skips columns', () => assert.deepEqual(rowDecoder({ id: cell.text }, 1)(['x', '7']), { id: '7' }));

  test('rejects nulls in columns that are never null', () => {
    assert.throws(() => rowDecoder(columns)(['{}', null, null, '0', null]), /unexpectedly null/);
    assert.throws(() => rowDecoder(columns)([]), /unexpectedly null/);
  });
});

describe('rows of several kinds', () => {
  const kinds = rowKinds({ written: { id: cell.text, tag: cell.text }, unmet: {} });

  test('have a first column with the kind, and the same number of columns', () => {
    assert.equal(kinds.column('written'), `'written' as "kind"`);
    assert.equal(kinds.select('written', 'a, b'), `'written' as "kind", a, b`);
    assert.equal(kinds.select('unmet'), `'unmet' as "kind", null, null`);
  });

  test('are decoded by kind', () => {
    assert.deepEqual(kinds.decode(['written', '7', 'x']), { kind: 'written', id: '7', tag: 'x' });
    assert.deepEqual(kinds.decode(['unmet', null, null]), { kind: 'unmet' });
  });
});
