// Values that undo a change, for members who see only part of a record.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { compileResource } from '../../engine/compile/compile.ts';
import { checkSources } from '../../engine/definition/check-sources.ts';
import { type ChangeValues, compileGrants } from '../../engine/records/index.ts';
import { undoValues } from '../../plugins/admin-ui/records/history.ts';
import { sourcesWith } from '../support/sources.ts';

const sources = await sourcesWith(
  {
    file: 'labels.yaml',
    text: `
common: all
fields:
  name: { type: string }
scopes:
  own: owner_id == me
`,
  },
  {
    file: 'deals.yaml',
    text: `
common: all
fields:
  label_ids: { type: references, to: labels }
`,
  },
);

test('a member who sees only some references in a field cannot undo changes to the field', () => {
  const resources = compileResource(checkSources(sources), '/api', []);
  const deals = resources.find(({ name }) => name === 'deals') ?? assert.fail();
  const limited = deals.viewFor(
    compileGrants([
      { object: 'deals', action: '*' },
      { object: 'labels', action: 'read:own' },
    ]),
  );
  const change: ChangeValues = {
    position: '1-1',
    at: '2026-11-26T00:00:00Z',
    actor: { kind: 'user', id: 1, name: null },
    request_id: null,
    action: 'update',
    changed: ['label_ids', 'updated_at'],
    before: { label_ids: [7] },
    after: { label_ids: [] },
  };
  assert.deepEqual(undoValues(deals, change), { label_ids: [7] });
  assert.equal(undoValues(limited, change), undefined);
});
