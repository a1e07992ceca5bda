// Views of callers with limited grants: callers can cause the compilation of many, so each must be cheap.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { compileResource } from '../../engine/compile/compile.ts';
import { checkSources } from '../../engine/definition/check-sources.ts';
import type { Effect } from '../../engine/effects/effect.ts';
import { effects } from '../../engine/effects/effects.ts';
import { compileGrants, grantsWithin, noGrants, type Principal } from '../../engine/records/index.ts';
import { limitSql } from '../../engine/records/rows.ts';
import { sourcesWith } from '../support/sources.ts';

const things = {
  file: 'things.yaml',
  text: `common: all
scopes:
  own: owner_id == me
  open: status == "Open"
fields:
  status: { type: string }
  margin: { type: number, group: finance }
`,
};

let statementCount = 0;
const counting: Effect = {
  ...effects.audit,
  expression: (context) => {
    statementCount++;
    return effects.audit.expression(context);
  },
};
const definitions = checkSources(await sourcesWith(things));
const resources = compileResource(definitions, '/api', [counting]);

/** Returns the view of callers with grants on things, each as `action` or `.group:action`. */
const viewWith = (...grants: readonly string[]) => {
  const rows = grants.map((grant) => {
    const [group = '', ...action] = grant.startsWith('.') ? grant.split(':') : ['', grant];
    return { object: `things${group}`, action: action.join(':') };
  });
  const resource = resources.find(({ name }) => name === 'things') ?? assert.fail();
  return resource.viewFor(compileGrants(rows));
};

test('a view compiles its operations when they are used', () => {
  const before = statementCount;
  const { context, definition } = viewWith('read:own');
  assert.ok(definition.fields.every(({ name }) => name !== 'margin'));
  assert.notEqual(context.view, '');
  assert.equal(statementCount, before);
  const { operations } = viewWith('read:own');
  assert.ok(statementCount > before);
  const after = statementCount;
  assert.equal(viewWith('read:own').operations, operations);
  assert.equal(statementCount, after);
});

test('views with the same fields share the rules for bodies', () => {
  const { body } = viewWith('read:open', 'update:open').context;
  assert.equal(viewWith('update:own').context.body, body);
  const readable = viewWith('update:own', '.finance:read').context.body;
  const writable = viewWith('update:own', '.finance:read', '.finance:update').context.body;
  assert.equal(new Set([body, readable, writable]).size, 3);
  assert.deepEqual(
    [body, readable, writable].map((rules) => rules.unexpected({ margin: 1 }).map(({ message }) => message)),
    [['margin is not a field of this resource'], ['margin is read-only'], []],
  );
});

test('records in each of two scopes and records in one of them are different views', () => {
  const grantsOf = (...actions: readonly string[]) =>
    compileGrants(
      ['list', 'create', 'update', 'delete', ...actions].map((action) => ({ object: 'things', action })),
    );
  const resource = resources.find(({ name }) => name === 'things') ?? assert.fail();
  const both = resource.viewFor(grantsWithin(grantsOf('read:own'), grantsOf('read:open')));
  const either = resource.viewFor(grantsOf('read:own', 'read:open'));
  assert.notEqual(both.context.view, either.context.view);
  const conditions = [both, either].map(({ context }) => limitSql(context, 'read', () => '$1'));
  assert.deepEqual(
    conditions.map((condition) => condition.includes(' or ')),
    [false, true],
  );
});

test('a view contains the fields of a group nowhere if the caller cannot read it', async () => {
  const deals = {
    file: 'deals.yaml',
    text: `common: all
fields:
  name: { type: string, unique: true }
  stage: { type: string, enum: [Open, Won], group: finance }
  margin: { type: number, group: finance }
  code: { type: string, unique: true, group: finance }
filters: [name, stage]
aggregates: { group_by: [name, stage], measures: [margin] }
screen: { title: [name, code], columns: [name, margin], board: stage }
`,
  };
  const compiled = compileResource(checkSources(await sourcesWith(deals)), '/api', []);
  const resource = compiled.find(({ name }) => name === 'deals') ?? assert.fail();
  const hidden = ['stage', 'margin', 'code'];
  const partsFor = (...actions: readonly string[]) => {
    const grants = [
      ...['list', 'read', 'create', 'update'].map((action) => ({ object: 'deals', action })),
      ...actions.map((action) => ({ object: 'deals.finance', action })),
    ];
    const { definition } = resource.viewFor(compileGrants(grants));
    const { fields, selection, filters, sort, uniques, screen, aggregates } = definition;
    const among = (all: readonly { readonly name: string }[]) =>
      all.map(({ name }) => name).filter((name) => hidden.includes(name));
    return {
      fields: among(fields),
      readOnly: among(fields.filter(({ readOnly }) => readOnly)),
      selection: among(selection),
      filters: among(filters.map(({ field }) => field)),
      sort: among([...sort.choices.values()]),
      uniques: among(uniques.flat()),
      title: among(screen.title),
      columns: among(screen.columns),
      board: screen.board?.name,
      groupBy: among((aggregates?.groupBy ?? []).map(({ field }) => field)),
      measures: among((aggregates?.measures ?? []).map(({ field }) => field)),
    };
  };
  const readable = {
    ...{ fields: hidden, readOnly: hidden, selection: hidden, filters: ['stage'], sort: hidden, uniques: [] },
    ...{ title: ['code'], columns: ['margin'], board: 'stage', groupBy: ['stage'], measures: ['margin'] },
  };
  assert.deepEqual(partsFor('read'), readable);
  assert.deepEqual(partsFor('read', 'update'), { ...readable, readOnly: [], uniques: ['code'] });
  const invisible = Object.fromEntries(Object.keys(readable).map((part) => [part, []]));
  for (const grants of [[], ['update']])
    assert.deepEqual(partsFor(...grants), { ...invisible, board: undefined });
});

test('a scope can select records without a formatted value, which filters never find', async () => {
  const clients = {
    file: 'clients.yaml',
    text: `common: all
scopes:
  blank: email == ""
  ada: email == "ada@engines.example"
fields:
  email: { type: string, format: email }
`,
  };
  const compiled = compileResource(checkSources(await sourcesWith(clients)), '/api', []);
  const resource = compiled.find(({ name }) => name === 'clients') ?? assert.fail();
  const conditionOf = (scope: string) => {
    const { context } = resource.viewFor(compileGrants([{ object: 'clients', action: `list:${scope}` }]));
    return limitSql(context, 'list', () => '$1');
  };
  assert.doesNotMatch(conditionOf('blank'), /<> ''/);
  assert.match(conditionOf('ada'), /<> ''/);
});

test('the number of compiled views is bounded, and an evicted view is compiled again', () => {
  const first = viewWith('read:own', 'update:own');
  const textOf = ({ operations }: typeof first) => {
    const principal: Principal = {
      kind: 'user',
      actor: '1',
      name: null,
      organization: '1',
      user: '1',
      grants: noGrants,
    };
    const caller = { principal, requestId: 'r' };
    return operations.read.statement({
      organization: '1',
      caller,
      id: '1',
      conditions: undefined,
      projection: undefined,
    })?.text;
  };
  const text = textOf(first);
  assert.match(String(text), /"owner_id" = \$\d+::bigint/);
  const scopes = ['', ':own', ':open'];
  const actions = ['list', 'read', 'create', 'update', 'delete'];
  const rights = actions.reduce<readonly (readonly string[])[]>(
    (combinations, action) =>
      combinations.flatMap((grants) => scopes.map((scope) => [...grants, `${action}${scope}`])),
    [[]],
  );
  assert.ok(rights.length > 200);
  const last = rights.map((grants) => viewWith(...grants)).at(-1);
  assert.equal(viewWith(...(rights.at(-1) ?? [])), last, 'the latest view is still compiled');
  const before = statementCount;
  const again = viewWith('read:own', 'update:own');
  assert.notEqual(again, first);
  assert.equal(textOf(again), text);
  assert.ok(statementCount > before);
  assert.equal(again.context.view, first.context.view);
});
