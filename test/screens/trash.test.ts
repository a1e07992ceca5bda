// The trash of a resource: its list, and forms that restore records or delete them permanently.
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import type { Action } from '../../engine/records/index.ts';
import { administratorOf, formsOf, readable, signIn, type Visitor } from '../support/forms.ts';
import { type Answer, type Organization, onBothDrivers } from '../support/instance.ts';
import { makePerson } from '../support/people.ts';
import { sourcesWith } from '../support/sources.ts';

const firms = '/setup/o/acme/data/firms';
const titleOf = ({ text }: Answer): string => readable(/<h1>(.*?)<\/h1>/.exec(text)?.[1] ?? '');
const messageOf = ({ text }: Answer): string =>
  readable(/<p class="(?:problem|notice)"[^>]*>(.*?)<\/p>/.exec(text)?.[1] ?? '').replace(/<\/?strong>/g, '');

const sources = await sourcesWith({
  file: 'firms.yaml',
  text: `common: all
trash: 30 days
fields:
  name: { type: string, unique: true }
sort: { by: id }
filters: [name]
`,
});

onBothDrivers(
  'the trash in the admin UI',
  (instance) => {
    let acme: Organization;
    let admin: Visitor;
    before(async () => {
      acme = await instance().organization('acme');
      admin = await signIn(instance(), administratorOf(acme));
    });
    const call = (request: string, body?: object) =>
      instance().call(request.replace(' /', ' /api/v1/'), { key: acme.key, ...(body && { body }) });
    /** Creates a firm and moves it to the trash. */
    const trashed = async (name: string): Promise<string> => {
      const id = String((await call('POST /firms', { name })).json.id);
      assert.equal((await call(`DELETE /firms/${id}`)).status, 200);
      return id;
    };
    const submit = async (page: Answer, action: string): Promise<Answer> => {
      const form = formsOf(page).find((each) => each.action === action) ?? assert.fail(page.text);
      const answer = await admin.post(form.action, form.values);
      assert.equal(answer.status, 303, messageOf(answer));
      return admin.get(answer.headers.get('location') ?? '');
    };

    test('lists the records in the trash, and restores them with their ID', async () => {
      const id = await trashed('Analytical <Engines>');
      assert.match((await admin.get(firms)).text, new RegExp(`href="${firms}/trash"`));
      const list = await admin.get(`${firms}/trash`);
      assert.equal(titleOf(list), 'Firms in the trash');
      assert.match(readable(list.text), /Records are deleted permanently after 30 days in the trash\./);
      assert.match(list.text, /Analytical &lt;Engines&gt;/);
      const question = await admin.get(`${firms}/${id}/restore`);
      assert.equal(titleOf(question), 'Restore Analytical <Engines>?');
      const restored = await submit(question, `${firms}/${id}/restore`);
      assert.equal(messageOf(restored), 'Analytical <Engines> restored.');
      assert.equal((await call(`GET /firms/${id}`)).status, 200);
      assert.doesNotMatch((await admin.get(`${firms}/trash`)).text, /Analytical/);
      assert.equal((await admin.get(`${firms}/${id}/restore`)).status, 404);
      const nameless = await trashed('');
      assert.equal(titleOf(await admin.get(`${firms}/${nameless}/restore`)), `Restore Firms ${nameless}?`);
    });

    test('deletes records in the trash permanently', async () => {
      const id = await trashed('Difference');
      assert.match((await admin.get(`${firms}/trash`)).text, new RegExp(`href="${firms}/${id}/purge`));
      const question = await admin.get(`${firms}/${id}/purge`);
      assert.equal(titleOf(question), 'Delete Difference permanently?');
      assert.equal(
        messageOf(await submit(question, `${firms}/${id}/purge`)),
        'Difference deleted permanently.',
      );
      assert.doesNotMatch((await admin.get(`${firms}/trash`)).text, /Difference/);
      const { text: activity } = await admin.get(`/setup/o/acme/activity?object=firms&record=${id}`);
      assert.deepEqual(activity.match(/(?<=>)Firms “Difference” [^<]*/g), [
        'Firms “Difference” deleted permanently',
        'Firms “Difference” moved to the trash',
        'Firms “Difference” created',
      ]);
      assert.equal((await admin.get(`${firms}/${id}/purge`)).status, 404);
      const page = await admin.get(`${firms}/${id}`);
      assert.match(page.text, /Deleted from the trash by/);
      assert.equal(page.text.match(/\/undo\?/g)?.length, 1, 'it is created again, but does not return');
      // A record that is not in the trash cannot be purged.
      const kept = String((await call('POST /firms', { name: 'Kept' })).json.id);
      assert.equal((await admin.get(`${firms}/${kept}/purge`)).status, 404);
    });

    test('its list has pages', async () => {
      const beta = await instance().organization('beta');
      const records = Array.from({ length: 21 }, (_, index) => ({ name: `Firm ${index + 10}` }));
      const send = (request: string, body: object) =>
        instance().call(`${request} /api/v1/firms/batch`, { key: beta.key, body });
      const made = await send('POST', { records });
      const ids = (made.json.results as readonly { id: number }[]).map(({ id }) => id);
      assert.equal((await send('DELETE', { ids })).status, 200);
      const browser = await signIn(instance(), administratorOf(beta));
      const list = '/setup/o/beta/data/firms/trash';
      const namesOn = ({ text }: Answer) => text.match(/>Firm \d\d</g) ?? [];
      const linkOn = ({ text }: Answer, label: string) =>
        readable(new RegExp(`<a[^>]* href="([^"]*)">${label}<`).exec(text)?.[1] ?? '');
      const first = await browser.get(list);
      assert.match(first.text, /<p>1–20 of 21<\/p>/);
      assert.equal(linkOn(first, 'First page'), '');
      const second = await browser.get(linkOn(first, 'Next page'));
      assert.match(second.text, /<p>21–21 of 21<\/p>/);
      assert.equal(linkOn(second, 'First page'), list);
      assert.equal(linkOn(second, 'Next page'), '');
      assert.equal(new Set([...namesOn(first), ...namesOn(second)]).size, 21);
      assert.doesNotMatch((await browser.get('/setup/o/beta/data/firms')).text, /Export selected/);
      const [, restored] = /\/firms\/(\d+)\/restore/.exec(second.text) ?? [];
      const restore = `POST /api/v1/firms/${restored}/restore`;
      assert.equal((await instance().call(restore, { key: beta.key })).status, 200);
      const only = await browser.get(list);
      assert.match(only.text, /<p>1–20 of 20<\/p>/);
      assert.equal(linkOn(only, 'Next page'), '');
      const empty = await browser.get(linkOn(first, 'Next page'));
      assert.doesNotMatch(empty.text, /of 20/);
      assert.equal(linkOn(empty, 'First page'), list);
    });

    test('a deleted record can be restored from the message', async () => {
      const id = String((await call('POST /firms', { name: 'Undone' })).json.id);
      const question = await admin.get(`${firms}/${id}/delete`);
      assert.match(question.text, />Moves the firms to the trash\. It can be restored for 30 days\.</);
      const deleted = await submit(question, `${firms}/${id}/delete`);
      assert.equal(messageOf(await submit(deleted, `${firms}/${id}/undo`)), 'Undone restored.');
      assert.equal((await call(`GET /firms/${id}`)).status, 200);
    });

    test('requires the grant to restore, and to delete permanently also the grant to delete', async () => {
      const id = await trashed('Guarded');
      const undo = /href="([^"]*\/undo\?change[^"]*)"/;
      const [, restoration = ''] = undo.exec((await admin.get(`${firms}/${id}`)).text) ?? [];
      const change = new URLSearchParams(readable(restoration).split('?')[1]).get('change') ?? '';
      assert.notEqual(change, '');
      const statuses = async (actions: readonly Action[]) => {
        const grants = [{ object: 'firms', actions }];
        const browser = await signIn(
          instance(),
          await makePerson(instance(), [{ organization: acme, grants }]),
        );
        assert.equal(
          undo.test((await browser.get(`${firms}/${id}`)).text),
          actions.includes('restore'),
          'the link on the page of the record',
        );
        const { text: list } = await browser.get(firms);
        assert.equal(
          list.includes(`href="${firms}/trash"`),
          actions.includes('restore'),
          'the link in the list',
        );
        const { text: trash } = await browser.get(`${firms}/trash`);
        assert.equal(trash.includes(`/${id}/restore"`), actions.includes('restore'));
        assert.doesNotMatch(trash, /\/purge"/, 'needs both grants');
        const paths = ['trash', `${id}/restore`, `${id}/purge`];
        const pages = await Promise.all(
          paths.map(async (path) => (await browser.get(`${firms}/${path}`)).status),
        );
        const _csrf = await browser.token('/setup/me');
        const forms: number[] = [];
        for (const path of ['purge', 'undo', 'restore'])
          forms.push((await browser.post(`${firms}/${id}/${path}`, { _csrf, change })).status);
        return [pages, forms];
      };
      assert.deepEqual(await statuses(['list', 'read', 'create', 'delete']), [
        [403, 403, 403],
        [403, 403, 403],
      ]);
      assert.deepEqual(await statuses(['list', 'read', 'restore']), [
        [200, 200, 403],
        [403, 303, 404],
      ]);
      assert.equal((await call(`GET /firms/${id}`)).status, 200);
      const unread = await trashed('Unread');
      const actions = ['list', 'restore', 'delete'] as const;
      const person = await makePerson(instance(), [
        { organization: acme, grants: [{ object: 'firms', actions }] },
      ]);
      const { text } = await (await signIn(instance(), person)).get(`${firms}/trash`);
      assert.match(text, /Unread/);
      assert.ok(!text.includes(`${firms}/${unread}`), 'links need the grant to read');
      assert.equal(
        (await admin.get('/setup/o/acme/data/leads/trash')).status,
        404,
        'a resource without a trash',
      );
    });
  },
  { sources },
);
