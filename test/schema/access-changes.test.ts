// Changes to scopes, field groups and retired resources, which change what callers can access although the tables stay the
// same, and changes to labels and screens, which do not.
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

const plain = '  margin: { type: number }';
const grouped = '  margin: { type: number, group: finance }';
const scope = (condition: string) => `${plain}\nscopes:\n  ada: ${condition}`;

for (const [before, after, ...expected] of [
  [plain, plain],
  [scope('name == "Ada"'), scope('name == "Ada"')],
  [plain, scope('name == "Ada"'), 'added things scope ada is new'],
  [
    scope('name == "Ada"'),
    plain,
    'removed things scope ada was removed, so grants with the scope allow nothing (breaks clients)',
  ],
  [
    scope('name == "Ada"'),
    scope('name == "Bob"'),
    'retyped things scope ada is now name == "Bob" instead of name == "Ada" (breaks clients)',
  ],
  [
    plain,
    grouped,
    'stricter things.margin now belongs to the group finance, so callers need a grant for the group (breaks clients)',
  ],
  [
    grouped,
    plain,
    'looser things.margin no longer belongs to the group finance, so every caller with access to the records can see it',
  ],
  [
    grouped,
    grouped.replace('finance', 'sales'),
    'stricter things.margin now belongs to the group sales, so callers need a grant for the group (breaks clients)',
  ],
  [plain, `${plain}\nlabel: Stuff\nscreen: { title: [name] }`],
  [plain, `${plain}\nretired: true`, 'removed things the path /things was removed (breaks clients)'],
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

test('the API of a resource without scopes and groups is recorded as before', () => {
  const { things: resource } = apiOf(things(plain));
  assert.deepEqual(Object.keys(resource ?? {}), ['fields', 'filters', 'unique', 'search', 'sort']);
  assert.deepEqual(resource?.fields.margin, { type: 'number' });
});
