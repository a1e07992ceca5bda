// Grants: how they are written, described and compared.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { checkSources } from '../../../engine/definition/check-sources.ts';
import {
  allows,
  compileGrants,
  covers,
  everyGrant,
  grantsWithin,
  uncoveredGrants,
} from '../../../engine/records/access.ts';
import {
  describeGrants,
  grantableObjects,
  grantText,
  parseGrant,
  splitGrant,
  storedGrant,
} from '../../../plugins/access/profiles/grants.ts';
import { deals } from '../../support/guarded.ts';
import { sourcesWith } from '../../support/sources.ts';

const definitions = checkSources(await sourcesWith(deals));
const objects = grantableObjects(definitions.map((definition) => ({ definition, actions: [] })));
const names = [
  ...definitions.flatMap(({ name }) => (name === 'deals' ? ['deals', 'deals.finance'] : [name])),
];

/** Returns stored grants from their command-line form. */
const stored = (...texts: readonly string[]) =>
  texts
    .flatMap((text) => splitGrant(text))
    .flatMap(({ object, actions }) => actions.map((action) => ({ object, action })));

describe('a grant on the command line', () => {
  for (const [text, ...actions] of [
    ['leads:read', 'leads:read'],
    ['leads:list,read', 'leads:list', 'leads:read'],
    ['leads:*', 'leads:*'],
    ['*:*', '*:*'],
    ['deals:update:own', 'deals:update:own'],
    ['deals:read,update:own', 'deals:read:own', 'deals:update:own'],
    ['deals:*:own', 'deals:*:own'],
    ['*:read:own', '*:read:own'],
    ['deals.finance:read,update', 'deals.finance:read', 'deals.finance:update'],
    ['deals.finance:*', 'deals.finance:*'],
    ['events:list', 'events:list'],
  ] as const)
    test(text, () => {
      const { object, actions: parsed } = parseGrant(text, objects);
      assert.deepEqual(
        parsed.map((action) => grantText({ object, action })),
        actions,
      );
      for (const action of actions) assert.equal(grantText(storedGrant(action)), action);
    });

  const available = [...names, 'events', 'members', '*'].join(', ');
  const everyAction = 'list, read, create, update, delete, *';
  const format = (text: string) =>
    `"${text}" is not a grant. Use object:action,action or object:action,action:scope, for example orders:list,read.`;
  for (const [text, message] of [
    ['leads', format('leads')],
    ['leads:', format('leads:')],
    [':read', format(':read')],
    ['leads:read,', format('leads:read,')],
    ['deals:read:', format('deals:read:')],
    ['deals:read:own:small', format('deals:read:own:small')],
    ['deels:read', `object "deels" does not exist. Did you mean "deals"? Available: ${available}.`],
    ['zzzzzz:read', `object "zzzzzz" does not exist. Available: ${available}.`],
    [
      'deals.finanse:read',
      `object "deals.finanse" does not exist. Did you mean "deals.finance"? Available: ${available}.`,
    ],
    ['deals:updat', `action "updat" does not exist. Did you mean "update"? Available: ${everyAction}.`],
    ['deals:updat:own', `action "updat" does not exist. Did you mean "update"? Available: ${everyAction}.`],
    [
      'deals.finance:delete',
      'action "delete" cannot be granted on deals.finance. Available: read, update, *.',
    ],
    ['deals:read:owm', 'deals does not define a scope "owm". Did you mean "own"? Available: own, small.'],
    ['leads:read:own', 'leads does not define scopes, but the grant names "own".'],
    ['events:read:own', 'events does not define scopes, but the grant names "own".'],
    ['deals.finance:read:own', 'deals.finance does not define scopes, but the grant names "own".'],
    ['*:read:mine', 'no resource defines a scope "mine". Available: own, small.'],
  ] as const)
    test(`${text} is rejected`, () => {
      assert.throws(() => parseGrant(text, objects), { name: 'UserError', message });
    });
});

describe('a description of grants', () => {
  for (const [grants, text] of [
    [[], 'nothing yet'],
    [['deals:read', 'deals:update:own', 'leads:read'], 'Deals: read all, update own; Leads: read'],
    [['deals:update:own', 'deals:update:small'], 'Deals: update own or small'],
    [['deals:update:own', 'deals:*'], 'Deals: list all, read all, create all, update all, delete all'],
    [['*:read:own'], 'Deals: read own'],
    [['deals.finance:read'], 'Deals (finance): read'],
    [['*:list,read', 'events:list,read', 'members:list,read'], 'list, read on everything'],
    [['*:*', 'events:*', 'members:*'], 'list, read, create, update, delete on everything'],
  ] as const)
    test(text, () => assert.equal(describeGrants(stored(...grants).map(grantText), objects, 'en'), text));
});

test('a description of the same grants on everything contains additional grants in scopes', () => {
  const onEverything = ['*:list,read', 'events:list,read', 'members:list,read'];
  const grants = stored(...onEverything, 'deals:update:own').map(grantText);
  assert.match(describeGrants(grants, objects, 'en'), /Deals: list all, read all, update own;/);
});

describe('grants cover other grants', () => {
  const grantsOf = (...texts: readonly string[]) => compileGrants(stored(...texts));
  for (const [own, other, missing] of [
    [['deals:read'], ['deals:read'], []],
    [['deals:read'], ['deals:read:own'], []],
    [['deals:read:own'], ['deals:read'], ['deals:read']],
    [['deals:read:own'], ['deals:read:own'], []],
    [['deals:read:own', 'deals:read:small'], ['deals:read:own'], []],
    [['deals:read:own'], ['deals:read:own', 'deals:read:small'], ['deals:read']],
    [['deals:read:small'], ['deals:read:own'], ['deals:read']],
    [['*:read:own'], ['deals:read:own'], []],
    [['deals:read:own'], ['*:read:own'], ['*:read']],
    [['*:read'], ['deals:read:own', 'deals.finance:read', 'leads:read'], []],
    [['deals:*'], ['deals.finance:read'], ['deals.finance:read']],
    [['*:*'], ['events:read', 'members:list'], ['events:read', 'members:list']],
    [names.map((name) => `${name}:read`), ['*:read'], ['*:read']],
    [[], ['deals:read:unknown', 'unknown:read'], []],
    [['leads:list'], ['leads:list,update'], ['leads:update']],
  ] as const)
    test(`${own.join(' ') || 'none'} and ${other.join(' ')}`, () => {
      assert.deepEqual(uncoveredGrants(grantsOf(...own), grantsOf(...other), definitions), missing);
      assert.equal(covers(grantsOf(...own), grantsOf(...other), definitions), missing.length === 0);
    });

  test('grants on custom fields and on the trash exist if a resource has them', async () => {
    const bins = {
      file: 'bins.yaml',
      text: 'singular: bin\ncommon: all\ntrash: 30 days\ncustom_fields: true\nfields:\n  name: { type: string }\n',
    };
    const more = checkSources(await sourcesWith(bins));
    for (const [own, other, missing] of [
      [['*:*'], ['fields:list,update'], ['fields:list', 'fields:update']],
      [['*:*'], ['bins:restore'], []],
      [['*:list,read,create,update,delete'], ['*:*'], ['*:restore', 'bins:restore']],
    ] as const)
      assert.deepEqual(uncoveredGrants(grantsOf(...own), grantsOf(...other), more), missing);
    // Without custom fields, no caller needs such a grant.
    assert.deepEqual(uncoveredGrants(grantsOf('*:*'), grantsOf('fields:list'), definitions), []);
  });

  test('a key on behalf of a member covers only what the member covers, too', () => {
    const delegated = grantsWithin(everyGrant, grantsOf('deals:read:own'));
    assert.equal(covers(delegated, grantsOf('deals:read:own'), definitions), true);
    assert.equal(covers(delegated, grantsOf('deals:read'), definitions), false);
    assert.equal(covers(grantsOf('deals:read:own'), delegated, definitions), true);
    assert.equal(covers(grantsOf('deals:read:small'), delegated, definitions), false);
  });

  test('the grant for an action of a module is covered by itself and by all actions', () => {
    const approve = compileGrants([{ object: 'deals', action: 'approve' }]);
    for (const [own, missing] of [
      [approve, []],
      [grantsOf('deals:*'), []],
      [grantsOf('*:*'), []],
      [grantsOf('deals:read,update'), ['deals:approve']],
      [compileGrants([{ object: 'leads', action: 'approve' }]), ['deals:approve']],
      [compileGrants([{ object: 'deals', action: 'reject' }]), ['deals:approve']],
      // A key on behalf of a member who does not have the grant.
      [grantsWithin(approve, grantsOf('deals:read')), ['deals:approve']],
      [grantsWithin(grantsOf('deals:*'), grantsOf('deals:read')), ['deals:approve']],
    ] as const) {
      assert.deepEqual(uncoveredGrants(own, approve, definitions), missing);
      assert.equal(allows(own, 'deals', 'approve'), missing.length === 0);
    }
    // A key has no more than the member on whose behalf it acts.
    assert.deepEqual(
      uncoveredGrants(grantsOf(), grantsWithin(approve, grantsOf('deals:read')), definitions),
      [],
    );
  });
});
