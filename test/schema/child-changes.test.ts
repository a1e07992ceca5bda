// Changes to the named lists of children, which change the API although the tables stay the same.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { checkSources } from '../../engine/definition/check-sources.ts';
import { apiChanges, apiOf } from '../../engine/schema/api.ts';

const fields = `fields:
  id: { type: int64, read_only: true, set: id }
  organization_id: { type: int64, read_only: true, set: organization }
`;

/** Returns the definitions of quotes with this list, and of their lines. */
const quotes = (list: string) =>
  checkSources([
    { file: 'quotes.yaml', text: `${fields}${list === '' ? '' : `children: { ${list} }\n`}` },
    {
      file: 'lines.yaml',
      text: `${fields}  quote_id: { type: reference, to: quotes, nullable: true }\n  copy_id: { type: reference, to: quotes, nullable: true }\n`,
    },
  ]);

const plain = 'rows: { of: lines, by: quote_id }';

for (const [before, after, ...expected] of [
  [plain, plain],
  [
    '',
    plain,
    'added quotes list rows is new and replaces the default name for lines in expand (breaks clients)',
  ],
  [plain, '', 'removed quotes list rows was removed (breaks clients)'],
  [
    plain,
    plain.replace('quote_id', 'copy_id'),
    'retyped quotes list rows contains lines by copy_id instead of lines by quote_id (breaks clients)',
  ],
  [
    plain,
    plain.replace(' }', ', sort: { by: id, direction: desc } }'),
    'retyped quotes list rows is now ordered by id desc (breaks clients)',
  ],
  [
    plain.replace(' }', ', sort: { by: id, direction: desc } }'),
    plain,
    'retyped quotes list rows is now ordered by the default order (breaks clients)',
  ],
  ['', plain.replace('rows', 'lines'), 'added quotes list lines is new'],
  [
    plain,
    plain.replace(' }', ', writable: true }'),
    'looser quotes list rows can now be set in request bodies',
  ],
  [
    plain.replace(' }', ', writable: true }'),
    plain,
    'stricter quotes list rows is now ignored in request bodies (breaks clients)',
  ],
] as const) {
  test(`${JSON.stringify(before)} → ${JSON.stringify(after)}`, () => {
    const definitions = quotes(after);
    const changes = apiChanges(apiOf(quotes(before)), apiOf(definitions), definitions);
    assert.deepEqual(
      changes.map(
        ({ kind, name, text, breaks }) => `${kind} ${name} ${text}${breaks ? ' (breaks clients)' : ''}`,
      ),
      expected,
    );
  });
}
