// Changes as callers with limited grants see them, without a database.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { compileResource } from '../../engine/compile/compile.ts';
import { checkSources } from '../../engine/definition/check-sources.ts';
import { compileGrants } from '../../engine/records/index.ts';
import { visibleChanges } from '../../engine/records/visible-changes.ts';
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
  label_ids: { type: references, to: labels, renamed_from: tag_ids, alias: true, deprecated: 2026-11-01, sunset: 2027-06-30 }
`,
  },
);

test('scopes are evaluated on changes from before a field was renamed', async () => {
  const tickets = {
    file: 'tickets.yaml',
    text: 'common: all\nfields:\n  status: { type: string, renamed_from: state }\nscopes:\n  open: status == "Open"\n',
  };
  const resources = compileResource(checkSources(await sourcesWith(tickets)), '/api', []);
  const resource = resources.find(({ name }) => name === 'tickets') ?? assert.fail();
  const { context } = resource.viewFor(compileGrants([{ object: 'tickets', action: 'read:open' }]));
  const text = visibleChanges('select', { resources: [context], action: 'read' }, () => '$1');
  for (const image of ['after', 'before'])
    assert.ok(text.includes(`coalesce(_i."${image}" ->> 'status', _i."${image}" ->> 'state')`), text);
});

test('changes omit references that the caller cannot see, also under the former name of the field', () => {
  const resources = compileResource(checkSources(sources), '/api', []);
  const deals = resources.find(({ name }) => name === 'deals') ?? assert.fail();
  const grants = compileGrants([
    { object: 'deals', action: 'read' },
    { object: 'labels', action: 'read:own' },
  ]);
  const { context } = deals.viewFor(grants);
  const text = visibleChanges('select', { resources: [context], action: 'read' }, () => '$1');
  for (const name of ['label_ids', 'tag_ids'])
    assert.ok(text.includes(`when '${name}' then array_to_json(`), name);
});
