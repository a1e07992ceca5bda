// What every operation in the registry guarantees. New operations are covered automatically.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { compileResource } from '../../engine/compile/compile.ts';
import { filterQueries } from '../../engine/compile/plans.ts';
import { checkSources } from '../../engine/definition/check-sources.ts';
import { effects } from '../../engine/effects/effects.ts';
import { actionNames } from '../../engine/records/access.ts';
import type { Body } from '../../engine/records/body.ts';
import { everyGrant } from '../../engine/records/index.ts';
import { operationsOf, routedOperation } from '../../engine/records/operations.ts';
import { everyType } from '../support/every-type.ts';
import { sourcesWith } from '../support/sources.ts';

const resources = compileResource(
  checkSources(await sourcesWith(...everyType)),
  '/api',
  Object.values(effects),
);
const principal = {
  kind: 'key',
  actor: '3',
  name: null,
  organization: '42',
  user: '7',
  grants: everyGrant,
} as const;

/** Returns a body with every required field. */
const bodyOf = ({ definition: { fields } }: (typeof resources)[number]): Body =>
  Object.fromEntries(
    fields.flatMap((field) => (field.required === true ? [[field.name, field.type.examples?.[0]]] : [])),
  ) as Body;

for (const resource of resources) {
  const paths = resource.openApi.paths ?? {};
  for (const { name, operation } of operationsOf(resource.definition)) {
    const compiled = routedOperation(resource.operations, name);
    const { method, path, action, status, isBatch = false } = operation;
    describe(`${method} ${resource.name}${path}`, () => {
      const described = paths[`/api/${resource.name}${path.replace(':id', '{id}')}`]?.[
        method.toLowerCase()
      ] as
        | { readonly operationId: string; readonly responses: Readonly<Record<string, unknown>> }
        | undefined;

      test('requires a permission that profiles can grant', () => assert.ok(actionNames.includes(action)));

      test('is described with its success and failure statuses', () => {
        assert.ok(described);
        assert.equal(typeof described.operationId, 'string');
        const statuses = Object.keys(described.responses).map(Number);
        assert.ok(statuses.includes(status));
        assert.deepEqual(
          statuses.filter((each) => each < 400),
          path === '/:id' && action === 'read' ? [status, 304] : [status],
        );
        for (const failure of [401, 403, 500, 503]) assert.ok(statuses.includes(failure), String(failure));
        assert.equal(statuses.includes(404), path.startsWith('/:id'));
      });

      test("restricts its statement to the caller's organization, and uses a lane for writes exactly if it writes", async () => {
        const record = bodyOf(resource);
        const [filter] = filterQueries(resource.definition);
        // Without a filter, a bulk change has no statement.
        if (operation.preference !== undefined && filter === undefined) return;
        const plan = await compiled.plan({
          caller: { principal, requestId: 'r' },
          ...(operation.preference !== undefined && { query: filter }),
          id: '5',
          body: operation.sampleBody ?? (isBatch ? { records: [{ ...record, id: 5 }], ids: [5] } : record),
        });
        assert.equal(plan.organization, '42');
        const statement = compiled.statement(plan);
        assert.ok(statement);
        const { text, values } = statement;
        const positions = [...text.matchAll(/\$(\d+)/g)].map(([, position]) => Number(position));
        assert.equal(Math.max(...positions), values.length, 'every value has a placeholder');
        const bound = [...text.matchAll(/"organization_id" = \$(\d+)/g)];
        if (method !== 'POST') assert.ok(bound.length > 0, text);
        for (const [, position] of bound) assert.equal(values[Number(position) - 1], '42', text);
        assert.ok(values.includes('42'));
        assert.equal(statement.lane === 'write', method !== 'GET' && !isBatch && operation.isSafe !== true);
        assert.equal(statement.lane === 'batch', isBatch);
      });
    });
  }

  test(`${resource.name}: names of operations are unique`, () => {
    const names = Object.values(paths).flatMap((path) =>
      Object.values(path as Readonly<Record<string, { readonly operationId?: string }>>).flatMap(
        ({ operationId = [] }) => operationId,
      ),
    );
    assert.deepEqual([...new Set(names)], names);
  });
}
