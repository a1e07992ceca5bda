// Hooks and actions that cannot work are reported at startup.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { compileResource } from '../../engine/compile/compile.ts';
import { afterResources } from '../../engine/compile/module-code.ts';
import { checkSources } from '../../engine/definition/check-sources.ts';
import { changeLog } from '../../engine/effects/change-log.ts';
import type { ModuleCode, ResourceAction } from '../../engine/records/index.ts';
import { sourcesWith } from '../support/sources.ts';

const definitions = checkSources(await sourcesWith());
const issuesOf = (
  modules: readonly ModuleCode[],
  effects = [changeLog],
  all = definitions,
): readonly string[] => {
  try {
    compileResource(all, '/api/v1', effects, [], modules);
    return [];
  } catch (cause) {
    return (cause as Error).message.split('\n');
  }
};
const action = (more: Partial<ResourceAction> = {}): ResourceAction => ({
  description: 'Does nothing.',
  run: () => undefined,
  ...more,
});

test('hooks and actions of unknown resources', () =>
  assert.deepEqual(
    issuesOf([{ name: 'acme', hooks: { leeds: {} }, actions: { contact: { call: action() } } }]),
    [
      'module acme: hooks.leeds: the instance does not have this resource. Did you mean "leads"?',
      'module acme: actions.contact: the instance does not have this resource. Did you mean "contacts"?',
    ],
  ));

test('hooks and actions of retired resources', async () => {
  const retired = { file: 'old.yaml', text: 'retired: true\ncommon: all\nfields: {}\n' };
  assert.deepEqual(
    issuesOf(
      [{ name: 'acme', hooks: { leads: {}, old: {} }, actions: { old: { call: action() } } }],
      [changeLog],
      checkSources(await sourcesWith(retired)),
    ).map((line) => line.replace(/resource\b.*/, 'resource')),
    ['hooks', 'actions'].map((key) => `module acme: ${key}.old: the instance does not have this resource`),
  );
});

test('grants, names and schemas of each action', () =>
  assert.deepEqual(
    issuesOf([
      {
        name: 'one',
        actions: {
          leads: {
            call: action(),
            'call--back': action(),
            delete: action({ permission: 'own' }),
            rate: action({ output: { properties: 'name' } }),
            update: action({ permission: 'update' }),
          },
        },
      },
      { name: 'two', actions: { contacts: { call: action() } } },
    ]),
    [
      'module one: actions.leads.call--back: the name must consist of lower-case letters, digits and single hyphens',
      'module one: actions.leads.delete: an action with a grant of its own cannot have the name of an action of the API',
      'module one: actions.leads.rate.output: the schema is invalid: /properties must be object',
    ],
  ));

test('names and schemas of actions', () =>
  assert.deepEqual(
    issuesOf([
      {
        name: 'one',
        actions: { leads: { Convert: action(), score: action({ input: { properties: 'name' } }) } },
      },
      { name: 'two', actions: { leads: { score: action() } } },
    ]),
    [
      'module one: actions.leads.Convert: the name must consist of lower-case letters, digits and single hyphens',
      'module one: actions.leads.score.input: the schema is invalid: /properties must be object',
      'module two: actions.leads.score: the module one already has this action',
    ],
  ));

test('hooks after writes, and actions, need the change log', () => {
  const message = (module: string) =>
    `module ${module}: its hooks after writes, and its actions, need the change log. Remove AUDIT=false`;
  const before = { name: 'before', hooks: { leads: { beforeWrite: () => undefined } } };
  const after = { name: 'after', hooks: { leads: { afterCommit: () => undefined } } };
  const acting = { name: 'acting', actions: { leads: { act: action() } } };
  const others = [
    { name: 'one', hooks: { ...before.hooks, contacts: { afterWrite: () => undefined } } },
    { name: 'many', hooks: { ...before.hooks, contacts: { afterWrites: () => undefined } } },
  ];
  assert.deepEqual(
    issuesOf([before, after, acting, ...others], []),
    ['after', 'acting', 'one', 'many'].map(message),
  );
  assert.deepEqual(issuesOf([before, after, acting]), []);
});

test('jobs need the path of a resource named "jobs"', async () => {
  const text =
    'singular: job\ndescription: A job.\ncommon: all\nfields:\n  name: { type: string, description: The name. }\n';
  const withJobs = checkSources(await sourcesWith({ file: 'resources/jobs.yaml', text }));
  const acting = { name: 'acting', actions: { leads: { act: action() } } };
  const queuing: ModuleCode = {
    name: 'queuing',
    actions: { leads: { queue: { description: 'Does nothing.', job: true, run: () => undefined } } },
  };
  assert.deepEqual(issuesOf([acting, queuing], [changeLog], withJobs), [
    'module queuing: actions.leads.queue.job: the instance has a resource named "jobs", whose path jobs need',
  ]);
  assert.deepEqual(issuesOf([acting, queuing]), []);
});

test('only jobs of the collection without input can have a schedule', () => {
  const run = () => undefined;
  const scheduled = { description: 'Does nothing.', schedule: '0 2 * * *', run } as const;
  const actions = {
    night: { ...scheduled, job: true, ofCollection: true },
    'one-record': { ...scheduled, job: true },
    'with-input': { ...scheduled, job: true, ofCollection: true, input: { required: ['name'] } },
    immediate: { ...scheduled, ofCollection: true } as never,
  } as const;
  const rule = 'only a job of the collection that needs no input can have a schedule';
  assert.deepEqual(
    issuesOf([{ name: 'acme', actions: { leads: actions } }]),
    ['one-record', 'with-input', 'immediate'].map(
      (name) => `module acme: actions.leads.${name}.schedule: ${rule}`,
    ),
  );
});

test('writes cause hooks after writes of records that refer to the written ones, directly or not', () => {
  const resource = (name: string, fields = '{}') => ({
    file: `${name}.yaml`,
    text: `common: [id, organization_id]\nfields: ${fields}\n`,
  });
  const linked = (to: string) => `{ link: { type: reference, to: ${to}, nullable: true } }`;
  const identity = 'read_only: true, set';
  const all = checkSources([
    {
      file: 'common.yaml',
      text: `fields:\n  id: { type: int64, ${identity}: id }\n  organization_id: { type: int64, ${identity}: organization }\n`,
    },
    resource('a'),
    resource('b', linked('a')),
    resource('c', linked('b')),
    resource('d', linked('c')),
    resource('e'),
  ]);
  const referrers = compileResource(all, '/api/v1', [])[0]?.context.referrers ?? assert.fail();
  const causing = (hooks: Readonly<Record<string, 'afterWrite' | 'afterWrites' | 'beforeWrite'>>) =>
    [
      ...afterResources(
        all,
        referrers,
        new Map(
          Object.entries(hooks).map(([name, hook]) => [
            name,
            [{ resource: name, module: 'acme', hooks: { [hook]: () => undefined } }],
          ]),
        ),
      ),
    ].sort();
  assert.deepEqual(causing({ c: 'afterWrite' }), ['a', 'b', 'c']);
  assert.deepEqual(causing({ d: 'beforeWrite', e: 'afterWrites' }), ['a', 'b', 'c', 'd', 'e']);
  assert.deepEqual(causing({ d: 'beforeWrite' }), []);
});
