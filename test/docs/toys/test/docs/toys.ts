// The rest of the project uses the toys without referring to them. Runs in a copy of the project that
// contains them.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { readConfig } from '../../app/config.ts';
import { modules } from '../../app/modules.ts';
import { compileResources } from '../../app/serve/build.ts';
import type { Services } from '../../app/services.ts';
import { errors } from '../../engine/errors.ts';
import { listParameters, parseQuery, queryClauses } from '../../engine/query/parts.ts';
import { convertField } from '../../engine/schema/conversions.ts';
import { simulatedProviders } from '../../webhooks/simulate/simulate.ts';

const text = `fields:
  id: { type: int64, read_only: true, set: id }
  organization_id: { type: int64, read_only: true, set: organization }
  price: { type: measure, nullable: true }
  name: { type: string }
filters: [price, { field: name, operators: [ends_with] }]
page: { size: 50 }`;
const [resource] = compileResources(readConfig({}), [{ file: 'things.yaml', text }]);
assert.ok(resource !== undefined);
const { definition, openApi } = resource;
const described = JSON.stringify(openApi);
const field = definition.fields.find(({ name }) => name === 'price');

test('a migration converts texts to both columns of the field type', () => {
  assert.ok(field !== undefined);
  assert.equal(convertField(field, 'string', ['"price"'], '1', undefined).columns.length, 2);
});

test('lists have the page size and the filters', () => {
  assert.ok(listParameters(definition).includes('name[ends_with]'));
  const parsed = parseQuery(definition, { 'name[ends_with]': 'x' }, []);
  const { limit, where } = queryClauses<{ readonly parsedQuery: typeof parsed }>(
    definition,
    parsed,
    () => '$1',
    { visibleIds: () => undefined, refersToAny: () => 'false', organization: () => '$2' },
  );
  assert.equal(limit, 50);
  assert.match(String(where), /^right\(/);
});

test('the description has the page size, the operation, and the headers', () => {
  for (const part of ['"const":50', '/things/{id}/peek', '"X-Peek"', '"X-Toys"', '"format":"measure"'])
    assert.ok(described.includes(part), part);
});

test('the metric is documented', () => {
  const page = readFileSync(join(import.meta.dirname, '../../docs/metrics.md'), 'utf8');
  const [metrics] = modules.find(({ name }) => name === 'toys')?.metrics?.({} as Services) ?? [];
  assert.ok(page.includes(`| \`crm_toys\` | gauge |  | ${metrics?.families.crm_toys?.help} |`));
});

test('the error has its hint as the last sentence', () => {
  const { status, message } = errors.toyBroken('wheel');
  assert.deepEqual([status, message], [503, 'The wheel is broken. Repair it.']);
});

test('a channel can be simulated', () => assert.ok(simulatedProviders.includes('pigeon')));
