// Grants: how they are written, described and compared.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { checkSources } from '../../../engine/definition/check-sources.ts';
import {
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

  test('a key on behalf of a member covers only what the member covers, too', () => {
    const delegated = grantsWithin(everyGrant, grantsOf('deals:read:own'));
    assert.equal(covers(delegated, grantsOf('deals:read:own'), definitions), true);
    assert.equal(covers(delegated, grantsOf('deals:read'), definitions), false);
    assert.equal(covers(grantsOf('deals:read:own'), delegated, definitions), true);
    assert.equal(covers(grantsOf('deals:read:small'), delegated, definitions), false);
  });
});
