// What every effect in the registry guarantees. New effects are covered automatically.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { readVariables } from '../../engine/config/variables.ts';
import type { WriteInput } from '../../engine/effects/effect.ts';
import { effects, effectVariables, enabledEffects } from '../../engine/effects/effects.ts';

const caller = { principal: { kind: 'key', actor: '7262', name: 'Zapier' }, requestId: 'req-77' } as const;

for (const [name, effect] of Object.entries(effects)) {
  describe(`the effect ${name}`, () => {
    for (const action of effect.on) {
      test(`${action}: is one expression that reads the written rows and binds its values`, () => {
        const bound: unknown[] = [];
        const text = effect.expression({
          source: '_some _w',
          order: '',
          row: '_w',
          columns: 't."a" as "a"',
          resource: "lea'ds",
          action,
          written: '_some',
          placeholder: (value) => `$${bound.push(value({ caller } satisfies WriteInput))}`,
        });
        // PostgreSQL would not run a SELECT whose result is not read.
        assert.match(text, /^_some_[a-z]+ as \((insert|update|delete) .*\)$/s);
        assert.match(text, /from _some\b/);
        // The organization comes from the written row, never from the request.
        assert.match(text, /"organization_id"/);
        assert.ok(!text.replaceAll('"lea\'ds"', '').includes("lea'ds"), 'a name is a literal or quoted');
        for (const value of ['7262', 'Zapier', 'req-77'])
          assert.ok(!text.includes(value), 'values are bound');
        if (name === 'audit') assert.deepEqual(bound, ['key', '7262', 'Zapier', 'req-77']);
      });
    }

    test('its variable enables and disables it', () => {
      const { variable } = effect;
      for (const on of [true, false]) {
        const issues: string[] = [];
        const values = readVariables(effectVariables, { [variable.name]: String(on) }, issues);
        const chosen = enabledEffects(values);
        assert.deepEqual(issues, []);
        assert.equal(chosen.includes(effect), on);
      }
    });

    test('its tables start with crm_', () => {
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
          order: '',
          row: '_w',
          columns: 't."a" as "a"',
          placeholder: () => '$1',
        })
        .split(' ')[0],
  );
  assert.deepEqual([...new Set(names)], names);
});
