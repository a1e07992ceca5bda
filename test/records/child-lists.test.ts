// Lists of children in bodies, without a database.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { compileResource } from '../../engine/compile/compile.ts';
import { checkSources } from '../../engine/definition/check-sources.ts';
import { compileChildLists } from '../../engine/records/child-lists.ts';
import { sourcesWith } from '../support/sources.ts';

const sources = await sourcesWith(
  {
    file: 'quotes.yaml',
    text: `
common: all
fields:
  title: { type: string }
children:
  lines: { of: quote_lines, by: quote_id, writable: true }
`,
  },
  {
    file: 'quote_lines.yaml',
    text: `
common: all
fields:
  owner_id: { assignable: true }
  quote_id: { type: reference, to: quotes, nullable: true }
  quote_ids: { type: references, to: quotes }
  name: { type: string }
`,
  },
);

test('a child in a body keeps its owner and its lists of references if they are absent, as PUT does', () => {
  const quotes = compileResource(checkSources(sources), '/api', []).find(({ name }) => name === 'quotes');
  const [list] = compileChildLists(quotes?.context ?? assert.fail());
  const { replacement } = list ?? assert.fail();
  assert.deepEqual(replacement({}), { name: null });
  assert.deepEqual(replacement({ name: 'a', owner_id: null, quote_ids: null }), {
    name: 'a',
    owner_id: null,
  });
  assert.deepEqual(replacement({ quote_ids: [] }), { name: null, quote_ids: [] });
});
