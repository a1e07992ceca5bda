// A member whose grants are limited to scopes or field groups can undo only what it can write completely. Pages that show the
// complete change log are only for administrators, whose grants limit nothing.
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { compileGrants } from '../../engine/records/index.ts';
import { builtInProfiles } from '../../plugins/access/profiles/profiles.ts';
import { readable, signIn } from '../support/forms.ts';
import { type Answer, type Organization, onBothDrivers } from '../support/instance.ts';
import { jobs, limitedPerson } from '../support/limited.ts';
import { sourcesWith } from '../support/sources.ts';

const actions = ['list', 'read', 'create', 'update'];
const granted = (scope = '') => actions.map((action) => `jobs:${action}${scope}`);

onBothDrivers(
  'the limited history of a record',
  (instance) => {
    let acme: Organization;
    before(async () => {
      acme = await instance().organization('acme');
    });
    const call = async (request: string, body?: object) => {
      const answer = await instance().call(request.replace(' ', ' /api/v1/'), {
        key: acme.key,
        ...(body && { body }),
      });
      assert.ok(answer.status < 300, answer.text);
      return Number(answer.json.id);
    };
    const open = async (grants: readonly string[]) => {
      const browser = await signIn(instance(), await limitedPerson(instance(), acme, grants));
      const page = (id: number) => `/setup/o/acme/data/jobs/${id}`;
      return { ...browser, record: (id: number) => browser.get(page(id)), page };
    };
    const undoLinks = ({ text }: Answer) =>
      [...text.matchAll(/href="([^"]*\/undo\?[^"]*)"/g)].map(([, href = '']) => readable(href));

    test('a change is undone only by members who can write every changed field that they see', async () => {
      const id = await call('POST jobs', { name: 'n1', margin: 1 });
      await call(`PATCH jobs/${id}`, { name: 'n2' });
      await call(`PATCH jobs/${id}`, { name: 'n3', margin: 471_147_711 });
      const complete = await open([...granted(), 'jobs.finance:read', 'jobs.finance:update']);
      const reader = await open([...granted(), 'jobs.finance:read']);
      const outsider = await open(granted());
      const full = undoLinks(await complete.record(id));
      assert.equal(full.length, 2);
      const [withMargin = '', onlyName = ''] = full;
      assert.deepEqual(undoLinks(await reader.record(id)), [onlyName]);
      assert.equal((await reader.get(withMargin)).status, 404);
      assert.equal((await reader.get(onlyName)).status, 200);
      const hidden = await outsider.record(id);
      assert.deepEqual(undoLinks(hidden), full, 'undoes what the member sees');
      for (const page of [hidden, await outsider.get(withMargin)])
        assert.doesNotMatch(page.text, /471,?147|margin/i);
      const change = new URLSearchParams(withMargin.split('?')[1]).get('change') ?? '';
      for (const side of [{}, { change, side: 'after' }]) {
        const value = `/value?${new URLSearchParams({ field: 'margin', ...side })}`;
        assert.equal((await reader.get(`${reader.page(id)}${value}`)).text, '471147711');
        assert.equal((await outsider.get(`${outsider.page(id)}${value}`)).status, 404);
      }
    });

    test('a record is restored only by members who can write all of it and are not limited to scopes', async () => {
      const id = await call('POST jobs', { name: 'n1' });
      await call(`DELETE jobs/${id}`);
      for (const [grants, isOffered] of [
        [[...granted(), 'jobs.finance:read', 'jobs.finance:update'], true],
        [[...granted(), 'jobs.finance:read'], false],
        [granted(), false],
        [[...granted(':open'), 'jobs.finance:read', 'jobs.finance:update'], false],
      ] as const) {
        const browser = await open(grants);
        const page = await browser.record(id);
        assert.equal(page.status, 200);
        assert.equal(undoLinks(page).length, isOffered ? 1 : 0, grants.join());
      }
    });

    test('a record that left the scope cannot be restored', async () => {
      const id = await call('POST jobs', { name: 'named before' });
      await call(`PATCH jobs/${id}`, { name: 'renamed outside', status: 'Done' });
      const browser = await open([...granted(':open'), 'jobs.finance:read', 'jobs.finance:update']);
      const page = await browser.record(id);
      assert.equal(page.status, 200);
      assert.deepEqual(undoLinks(page), []);
      assert.doesNotMatch(page.text, /renamed outside/);
      const history = await instance().call(`GET /api/v1/jobs/${id}/history`, { key: acme.key });
      const [{ position = '' } = {}] = history.json.data as { position: string }[];
      assert.equal((await browser.get(`${browser.page(id)}/undo?change=${position}`)).status, 404);
    });

    test('a form submitted twice creates one record, and another one if the first is no longer visible', async () => {
      const browser = await open(granted(':open'));
      const form = '/setup/o/acme/data/jobs/new';
      const page = await browser.get(form);
      const values = Object.fromEntries(
        [...page.text.matchAll(/<input[^>]* name="([^"]*)"[^>]* value="([^"]*)"/g)].map(
          ([, name = '', value = '']) => [name, readable(value)],
        ),
      );
      const submit = async () => {
        const answer = await browser.post(form, { ...values, name: 'once' });
        assert.equal(answer.status, 303, answer.text);
        return Number(/\/jobs\/(\d+)/.exec(answer.headers.get('location') ?? '')?.[1]);
      };
      const id = await submit();
      assert.equal(await submit(), id);
      await call(`PATCH jobs/${id}`, { status: 'Done' });
      const second = await submit();
      assert.notEqual(second, id);
      assert.equal(await submit(), second);
    });

    test('pages with the complete change log are only for administrators, whose grants limit nothing', async () => {
      const browser = await open(['*:*', 'members:*', 'events:*']);
      for (const page of [
        'activity',
        'activity/export',
        'forgetting',
        'events',
        'events?show=event-deliveries',
      ])
        assert.equal((await browser.get(`/setup/o/acme/${page}`)).status, 403, page);
      assert.equal((await browser.get('/setup/organizations/acme/export')).status, 403);
      const grants = compileGrants(
        (builtInProfiles.administrator ?? []).flatMap(({ object, actions }) =>
          actions.map((action) => ({ object, action })),
        ),
      );
      for (const { viewFor } of instance().resources) assert.equal(viewFor(grants).context.view, '');
    });
  },
  { sources: await sourcesWith(jobs) },
);
