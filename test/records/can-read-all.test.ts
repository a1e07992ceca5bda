// Whether one caller can read everything that another can: used before events are sent to a URL of the caller's choice.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { checkSources } from '../../engine/definition/check-sources.ts';
import { canWrite } from '../../engine/records/access.ts';
import { canReadAll, compileGrants, grantsWithin } from '../../engine/records/index.ts';
import { jobs } from '../support/limited.ts';
import { sourcesWith } from '../support/sources.ts';

const tasks = {
  file: 'tasks.yaml',
  text: `
singular: task
common: all
fields:
  job_id: { type: reference, to: jobs, nullable: true, description: The job. }
  job_name: { type: joined, through: job_id, show: [name] }
sort: { by: created_at, direction: desc }
`,
};
const plans = {
  file: 'plans.yaml',
  text: `
singular: plan
common: all
fields:
  job_ids: { type: references, to: jobs }
sort: { by: created_at, direction: desc }
`,
};
const definitions = checkSources(await sourcesWith(jobs, tasks, plans));
const grants = (text: string) =>
  compileGrants(
    text.split(' ').map((grant) => {
      const [object = '', action = ''] = grant.split(/:(.*)/);
      return { object, action };
    }),
  );

for (const [caller, other, expected] of [
  ['*:*', '*:*', true],
  ['*:*', 'jobs:read:own', true],
  ['jobs:read', '*:*', false],
  ['jobs:read:own', 'jobs:read:own', true],
  ['jobs:read:own', 'jobs:read', false],
  ['jobs:read', 'jobs:read:own', true],
  ['jobs:read:own jobs:read:hot', 'jobs:read:hot', true],
  ['jobs:read:hot', 'jobs:read:own jobs:read:hot', false],
  ['jobs:read', 'jobs:list', true],
  ['jobs:list', 'jobs:read:own', false],
  ['jobs:read', 'jobs:read jobs.finance:read', false],
  ['jobs:read jobs.finance:update', 'jobs:read jobs.finance:read', false],
  ['jobs:read jobs.finance:read', 'jobs:read', true],
  ['jobs:read', 'jobs.finance:read', true],
  // Without any grant on the referenced resource, its names are visible.
  ['tasks:read', 'tasks:read', true],
  ['tasks:read jobs:read:own', 'tasks:read', false],
  ['tasks:read jobs:read', 'tasks:read', true],
  ['tasks:read', 'tasks:read jobs:read:own', false],
  ['tasks:read jobs:read:own', 'tasks:read jobs:read:own', true],
  // The same applies to references in lists.
  ['plans:read', 'plans:read', true],
  ['plans:read jobs:read:own', 'plans:read', false],
  ['plans:read jobs:read', 'plans:read', true],
  ['plans:read', 'plans:read jobs:read:own', false],
  ['plans:read jobs:read:own', 'plans:read jobs:read:own', true],
] as const) {
  test(`${caller} ${expected ? 'includes' : 'does not include'} ${other}`, () => {
    assert.equal(canReadAll(definitions, grants(caller), grants(other)), expected);
  });
}

test('a key on behalf of a member reads no more than the member', () => {
  const key = grantsWithin(grants('jobs:read'), grants('jobs:read:own'));
  assert.equal(canReadAll(definitions, key, grants('jobs:read')), false);
  assert.equal(canReadAll(definitions, key, grants('jobs:read:own')), true);
  assert.equal(canReadAll(definitions, grants('jobs:read:own'), key), true);
});

for (const [text, expected] of [
  ['*:list *:read jobs:read:own', false],
  ['jobs:list jobs:update', true],
  ['jobs:list *:create', true],
  ['jobs:read jobs:delete:own', true],
  ['jobs:read jobs:restore', true],
  ['jobs:read jobs:archive', true],
] as const)
  test(`a caller with ${text} ${expected ? 'can write, so it reads its own writes' : 'cannot write'}`, () => {
    assert.equal(canWrite(grants(text)), expected);
  });
