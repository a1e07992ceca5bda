// Changes to the values that the server gives new records: default_from and sequence.
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
  name: { type: string }
${lines.join('\n')}\n`,
    },
  ]);

const field = (keys: string) => `  code: { type: string, ${keys} }`;
const plain = field('nullable: true');

for (const [before, after, ...expected] of [
  [plain, plain],
  [
    plain,
    field('nullable: true, default_from: name'),
    'changed things.code is calculated as name in new records that omit it',
  ],
  [
    field('nullable: true, default_from: name'),
    field('nullable: true, default_from: \'"x"\''),
    'changed things.code is calculated as "x" instead of name in new records that omit it',
  ],
  [
    field('nullable: true, default_from: name'),
    plain,
    'changed things.code is no longer calculated in new records that omit it (breaks clients)',
  ],
  [
    '',
    field('sequence: "T-{000}"'),
    'added things.code is new and numbers new records as T-{000}; existing records keep null',
  ],
  [
    plain,
    field('sequence: "T-{000}"'),
    'stricter things.code is now read-only and ignored in request bodies (breaks clients)',
    'changed things.code numbers new records as T-{000}; existing records keep their values',
  ],
  [
    field('sequence: "T-{000}"'),
    field('sequence: "T-{year}-{000}"'),
    'changed things.code numbers new records as T-{year}-{000} instead of T-{000}',
  ],
  [
    field('sequence: "T-{000}"'),
    plain,
    'looser things.code can now be set in request bodies',
    'changed things.code no longer numbers new records (breaks clients)',
  ],
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
