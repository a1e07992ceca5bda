// Changes to the fields that aggregates can use.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { checkSources } from '../../engine/definition/check-sources.ts';
import { apiChanges, apiOf } from '../../engine/schema/api.ts';

/** Returns the definition of a resource with these lines. */
const things = (...lines: string[]) =>
  checkSources([
    {
      file: 'things.yaml',
      text: `fields:
  id: { type: int64, read_only: true, set: id }
  organization_id: { type: int64, read_only: true, set: organization }
${lines.join('\n')}\n`,
    },
  ]);

const fields = '  stage: { type: string }\n  amount: { type: number }';
const all = 'aggregates: { group_by: [stage], measures: [amount] }';

for (const [before, after, ...expected] of [
  [`${fields}\n${all}`, `${fields}\n${all}`],
  [
    `${fields}\n${all}`,
    `${fields}\naggregates: { group_by: [stage] }`,
    'removed things aggregate measure amount was removed (breaks clients)',
  ],
  [
    `${fields}\n${all}`,
    `${fields}\naggregates: { measures: [amount] }`,
    'removed things aggregate group stage was removed (breaks clients)',
  ],
  [
    `${fields}\n${all}`,
    fields,
    'removed things aggregate group stage was removed (breaks clients)',
    'removed things aggregate measure count() was removed (breaks clients)',
    'removed things aggregate measure amount was removed (breaks clients)',
  ],
  [
    `${fields}\naggregates: { group_by: [stage] }`,
    `${fields}\n${all}`,
    'added things aggregate measure amount is new',
  ],
  // The change of the field is reported instead.
  [
    `${fields}\n${all}`,
    '  stage: { type: string }\naggregates: { group_by: [stage] }',
    'removed things.amount was removed (breaks clients)',
  ],
  [
    `${fields}\n${all}`,
    '  phase: { type: string, renamed_from: stage }\n  amount: { type: number }\naggregates: { group_by: [phase], measures: [amount] }',
    'renamed things.stage is now phase (breaks clients)',
  ],
  // Migrations written by earlier versions do not record aggregates.
  [fields, `${fields}\n${all}`],
] as const) {
  test(`${JSON.stringify(before)} → ${JSON.stringify(after)}`, () => {
    const definitions = things(after);
    const changes = apiChanges(apiOf(things(before)), apiOf(definitions), definitions);
    assert.deepEqual(
      changes.map(
        ({ kind, name, text, breaks }) => `${kind} ${name} ${text}${breaks ? ' (breaks clients)' : ''}`,
      ),
      expected,
    );
  });
}
