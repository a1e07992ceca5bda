// What every effect promises, by the registry: a new one is covered unasked.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { readVariables } from '../../engine/config/variables.ts';
import type { WriteInput } from '../../engine/effects/effect.ts';
import { effects, effectVariables, enabledEffects } from '../../engine/effects/effects.ts';

const caller = { principal: { kind: 'key', actor: '7262', name: 'Zapier' }, requestId: 'req-77' } as const;

for (const [name, effect] of Object.entries(effects)) {
  describe(`the effect ${name}`, () => {
    for (const action of effect.on) {
      test(`${action}: one expression that reads what was written and binds what it needs`, () => {
        const bound: unknown[] = [];
        const text = effect.expression({
          source: '_some _w',
          row: '_w',
          columns: 't."a" as "a"',
          resource: "lea'ds",
          action,
          written: '_some',
          placeholder: (value) => `$${bound.push(value({ caller } satisfies WriteInput))}`,
        });
        // A SELECT that nothing reads would not run.
        assert.match(text, /^_some_[a-z]+ as \((insert|update|delete) .*\)$/s);
        assert.match(text, /from _some\b/);
        // The organization is the written row's own, never one that a request names.
        assert.match(text, /"organization_id"/);
        assert.ok(!text.replaceAll('"lea\'ds"', '').includes("lea'ds"), 'a name is a literal or quoted');
        for (const value of ['7262', 'Zapier', 'req-77'])
          assert.ok(!text.includes(value), 'values are bound');
        if (name === 'audit') assert.deepEqual(bound, ['key', '7262', 'Zapier', 'req-77']);
      });
    }

    test('its variable is read, on and off', () => {
      const { variable } = effect;
      for (const on of [true, false]) {
        const mistakes: string[] = [];
        const values = readVariables(effectVariables, { [variable.name]: String(on) }, mistakes);
        const chosen = enabledEffects(values);
        assert.deepEqual(mistakes, []);
        assert.equal(chosen.includes(effect), on);
      }
    });

    test('its tables begin with crm_', () => {
      for (const { meta } of effect.tables) assert.match(meta.tableName, /^crm_[a-z_]+$/);
    });
  });
}

test('names of expressions are unique', () => {
  const names = Object.values(effects).map(
    (effect) =>
      effect
        .expression({
          resource: 'r',
          action: 'create',
          written: '_written',
          source: '_written _w',
          row: '_w',
          columns: 't."a" as "a"',
          placeholder: () => '$1',
        })
        .split(' ')[0],
  );
  assert.deepEqual([...new Set(names)], names);
});
