// The batch form of a statement reads the values of the single form, so its parameters must have the same positions.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { prepare } from '../../engine/sql/statement.ts';

interface Input {
  readonly organization: string;
  readonly id: string;
  readonly name: string;
}
const organization = ({ organization }: Input) => organization;
const id = ({ id }: Input) => id;

test('a batch form can mention parameters in another order', () => {
  const { bind } = prepare<Input>(
    'ordered',
    'read',
    ($) => `select ${$(id)}, ${$(({ name }) => name)}, ${$(organization)}`,
    undefined,
    { write: ($) => ` select ${$(organization)}, ${$(({ name }) => name)}, ${$(id)}`, differ: 0 },
  );
  const { text, values, many } = bind({ organization: 'o', id: 'i', name: 'n' });
  assert.equal(text, 'select $1, $2, $3');
  assert.deepEqual(values, ['i', 'n', 'o']);
  assert.match(many?.text ?? '', / select _in\."_3", _in\."_2", _in\."_1"$/);
});

test('a batch form must have the parameters of the single form', () => {
  for (const functions of [[id], [id, organization, () => 'x']])
    assert.throws(
      () =>
        prepare<Input>('other', 'read', ($) => `select ${$(id)}, ${$(organization)}`, undefined, {
          write: ($) => ` select ${functions.map((value) => $(value)).join()}`,
          differ: 0,
        }),
      /other has other parameters for many inputs/,
    );
});
