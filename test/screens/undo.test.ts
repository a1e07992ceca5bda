// Editing one value in place, undo next to messages, and deleting several records: forms that work without JavaScript.
import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { tablesOf } from '../../engine/tables/handle.ts';
import { administratorOf, formsOf, readable, signIn, type Visitor } from '../support/forms.ts';
import { type Answer, type Organization, onBothDrivers } from '../support/instance.ts';
import { makePerson } from '../support/people.ts';
import { patienceMs } from '../support/promised.ts';
import { sourcesWith } from '../support/sources.ts';

const data = '/setup/o/acme/data';
const leads = `${data}/leads`;
const titleOf = ({ text }: Answer): string => readable(/<h1>(.*?)<\/h1>/.exec(text)?.[1] ?? '');
const messageOf = ({ text }: Answer): string =>
  readable(/<p class="(?:problem|notice)"[^>]*>(.*?)<\/p>/.exec(text)?.[1] ?? '').replace(/<\/?strong>/g, '');
/** Returns the form with this action on a page. */
const formTo = (answer: Answer, action: string) => formsOf(answer).find((form) => form.action === action);
const undoIn = (answer: Answer) =>
  formsOf(answer).find(({ action }) => action.startsWith(data) && action.endsWith('/undo'));

/** Resources whose records prevent the deletion of another record, or are deleted with it. */
const dependent = (name: string, onDelete: string, [field, to] = ['account_id', 'accounts']) => ({
  file: `resources/${name}.yaml`,
  text: `description: Records of another record.
common: all
fields:
  ${field}: { type: reference, to: ${to}, required: true, on_delete: ${onDelete}, description: The other record. }
`,
});
const sources = await sourcesWith(
  dependent('clauses', 'restrict'),
  dependent('parts', 'cascade'),
  dependent('quotes', 'restrict', ['opportunity_id', 'opportunities']),
);

onBothDrivers(
  'undo',
  (instance) => {
    let acme: Organization;
    let admin: Visitor;
    before(async () => {
      acme = await instance().organization('acme');
      admin = await signIn(instance(), administratorOf(acme));
    });
    const make = async (body: object): Promise<string> => {
      const made = await instance().call('POST /api/v1/leads', { key: acme.key, body });
      assert.equal(made.status, 201, made.text);
      return String(made.json.id);
    };
    const read = async (id: string) =>
      (await instance().call(`GET /api/v1/leads/${id}`, { key: acme.key })).json;
    const patch = (id: string, body: object) =>
      instance().call(`PATCH /api/v1/leads/${id}`, { key: acme.key, body });
    const follow = (answer: Answer, browser = admin): Promise<Answer> => {
      assert.equal(answer.status, 303, messageOf(answer));
      return browser.get(answer.headers.get('location') ?? '');
    };
    const undo = async (page: Answer): Promise<Answer> => {
      const form = undoIn(page) ?? assert.fail('no Undo');
      return admin.post(form.action, form.values);
    };
    /** Opens the form for one value and submits it. */
    const edit = async (id: string, name: string, value: string, browser = admin): Promise<Answer> => {
      const form = formTo(await browser.get(`${leads}/${id}?edit=${name}`), `${leads}/${id}/edit`);
      return browser.post(form?.action ?? assert.fail(`no form for ${name}`), {
        ...form?.values,
        [name]: value,
      });
    };

    test('a value is edited in place, and only this value is written', async () => {
      const id = await make({ last_name: 'Ames', company: 'A', description: 'one\r\ntwo' });
      const page = await admin.get(`${leads}/${id}`);
      assert.match(
        page.text,
        new RegExp(`<a href="${leads}/${id}\\?edit(&#x3D;|=)company" aria-label="Edit Company"`),
      );
      assert.doesNotMatch(page.text, /edit(&#x3D;|=)created_at/, 'read-only values have no form');
      const form = await admin.get(`${leads}/${id}?edit=company`);
      assert.match(form.text, /<input id="in-company" name="company" autofocus/);
      assert.equal(/name="last_name"/.test(form.text), false);
      const answer = await edit(id, 'company', 'B');
      // The name and the change are kept for a minute, so that the next page can show them.
      assert.match(
        answer.headers.getSetCookie().find((cookie) => cookie.startsWith('crm_done=')) ?? '',
        /; Max-Age=60; Path=\/setup; HttpOnly/,
      );
      const saved = await follow(answer);
      assert.deepEqual([titleOf(saved), messageOf(saved)], ['Ames', 'Ames saved.']);
      const { company, description } = await read(id);
      assert.deepEqual([company, description], ['B', 'one\r\ntwo']);
      assert.equal(messageOf(await follow(await edit(id, 'company', 'B'))), 'No changes to Ames.');
      const inCell = formTo(await admin.get(`${leads}/${id}?edit=company`), `${leads}/${id}/edit`);
      const sent = { ...inCell?.values, from: 'list', at: 'q=ames&sort=last_name', company: 'C' };
      const back = await admin.post(`${leads}/${id}/edit`, sent);
      assert.equal(back.headers.get('location'), `${leads}?q=ames&sort=last_name&done=record-saved`);
      assert.match(saved.text, /<strong>Company<\/strong> <del>A<\/del>/);
    });

    test('a rejected value stays in its form, with the error below it', async () => {
      const id = await make({ last_name: 'Ames', lead_score: 1 });
      const rejected = await edit(id, 'lead_score', 'many');
      assert.equal(rejected.status, 400);
      assert.match(rejected.text, /<p class="error">lead_score must be a 64-bit integer</);
      assert.match(rejected.text, /name="lead_score"[^>]* aria-invalid="true"[^>]* value="many"/);
      assert.doesNotMatch(rejected.text, /<textarea id="note"[^>]* aria-invalid/, 'the note is not wrong');
      assert.equal((await read(id)).lead_score, 1);
    });

    test("a value's form does not overwrite another user's changes", async () => {
      const id = await make({ last_name: 'Ames', company: 'A' });
      const late = formTo(await admin.get(`${leads}/${id}?edit=company`), `${leads}/${id}/edit`);
      await patch(id, { company: 'Theirs', phone: '1' });
      const values = { ...late?.values, company: 'Ours' };
      const refused = await admin.post(`${leads}/${id}/edit`, values);
      assert.equal(refused.status, 412);
      assert.match(messageOf(refused), /^Someone else has changed this record since you opened it\./);
      assert.match(refused.text, /Current value: Theirs/);
      const again = formTo(refused, `${leads}/${id}/edit`);
      await follow(await admin.post(`${leads}/${id}/edit`, { ...again?.values, company: 'Ours' }));
      const { company, phone } = await read(id);
      assert.deepEqual([company, phone], ['Ours', '1'], 'only the value in the form is overwritten');
    });

    test('members without the permission to update have no form', async () => {
      const id = await make({ last_name: 'Ames' });
      const grants = [{ object: 'leads', actions: ['list', 'read'] }] as const;
      const reader = await signIn(instance(), await makePerson(instance(), [{ organization: acme, grants }]));
      for (const query of ['', '?edit=company']) {
        const page = await reader.get(`${leads}/${id}${query}`);
        assert.equal(page.status, 200);
        assert.doesNotMatch(page.text, /class="edit"|name="company"/);
      }
      assert.equal((await admin.get(`${leads}/${id}?edit=nothing`)).status, 200);
    });

    test('an edit is undone with one click, unless the value has changed since', async () => {
      const id = await make({ last_name: 'Ames', company: 'A' });
      const saved = await follow(await edit(id, 'company', 'B'));
      await patch(id, { phone: '1' });
      const undone = await follow(await undo(saved));
      assert.equal(messageOf(undone), 'Change to Ames undone.');
      assert.equal((await read(id)).company, 'A');
      assert.equal((await read(id)).phone, '1');
      await follow(await undo(undone));
      assert.equal((await read(id)).company, 'B', 'undo can be undone');
      const second = await follow(await edit(id, 'company', 'C'));
      await patch(id, { company: 'Theirs' });
      const asked = await undo(second);
      assert.equal(asked.status, 412);
      assert.equal(titleOf(asked), 'Undo this change to Ames?');
      assert.equal((await read(id)).company, 'Theirs');
      assert.equal(
        undoIn(await admin.get(`${leads}/${id}?done=record-saved`)),
        undefined,
        'offered only once',
      );
    });

    test('a deletion is undone with one click, and the list stays as it was', async () => {
      const id = await make({ last_name: 'Lazarus', company: 'Undo & Co' });
      const list = `${leads}?q=lazarus&sort=last_name`;
      const link = readable(
        /href="([^"]*)" aria-label="Delete Lazarus"/.exec((await admin.get(list)).text)?.[1] ?? '',
      );
      const question = await admin.get(link);
      const form = formTo(question, `${leads}/${id}/delete`);
      const gone = await admin.post(form?.action ?? '', form?.values ?? {});
      assert.equal(gone.headers.get('location'), `${list}&done=record-deleted`);
      const answer = await undo(await follow(gone));
      assert.equal(answer.headers.get('location'), `${list}&done=record-restored`);
      const restored = await follow(answer);
      assert.equal(messageOf(restored), 'Lazarus restored with a new ID.');
      assert.match(restored.text, /<tr class="marked card">/);
    });

    test('selected records are deleted together after a confirmation, and restored together', async () => {
      const company = 'Selected';
      const ids: string[] = [];
      for (const name of ['One', 'Two', 'Three']) ids.push(await make({ last_name: name, company }));
      const [one = '', two = '', three = ''] = ids;
      const query = `q=selected&sort=last_name`;
      const list = await admin.get(`${leads}?${query}`);
      assert.match(
        list.text,
        /<input type="checkbox" name="id" value="\d+" form="selection" aria-label="Select One"/,
      );
      const selection = new URLSearchParams({ at: query, query });
      for (const id of [one, two, 'x', one]) selection.append('id', id);
      const question = await admin.get(`${leads}/delete?${selection}`);
      assert.equal(titleOf(question), 'Delete 2 leads?');
      assert.match(question.text, /<li>One<\/li><li>Two<\/li>/);
      assert.doesNotMatch(question.text, /value="all"/, 'the page is not selected completely');
      const form = formTo(question, `${leads}/delete`);
      const gone = await admin.post(`${leads}/delete`, { ...form?.values, id: [one, two] });
      assert.equal(gone.headers.get('location'), `${leads}?${query}&done=records-deleted`);
      const after = await follow(gone);
      assert.equal(messageOf(after), '2 leads deleted.');
      const status = async (id: string) =>
        (await instance().call(`GET /api/v1/leads/${id}`, { key: acme.key })).status;
      assert.deepEqual([await status(one), await status(two), await status(three)], [404, 404, 200]);
      const nothing = await admin.get(`${leads}/delete?${selection}`);
      assert.equal(messageOf(await follow(nothing)), 'The selected records no longer exist.');
      const rest = await admin.get(`${leads}/delete?id=${one}&id=${three}`);
      assert.equal(titleOf(rest), 'Delete 1 lead?');
      const restored = await follow(await undo(after));
      assert.equal(messageOf(restored), '2 leads restored with new IDs.');
      const { text } = await admin.get(`${leads}?${query}`);
      for (const name of ['One', 'Two', 'Three']) assert.match(text, new RegExp(`>${name}<`));
      const form2 = undoIn(after) ?? assert.fail();
      await follow(await admin.post(form2.action, form2.values));
      assert.match((await admin.get(`${leads}?${query}`)).text, /1–3 of 3/, 'restored only once');
    });

    test('selected records that cannot be deleted are kept, and only the others are restored', async () => {
      const accounts = `${data}/accounts`;
      const create = async (resource: string, body: object) => {
        const made = await instance().call(`POST /api/v1/${resource}`, { key: acme.key, body });
        assert.equal(made.status, 201, made.text);
        return Number(made.json.id);
      };
      const [free, bound] = [
        await create('accounts', { name: 'Partly free' }),
        await create('accounts', { name: 'Partly bound' }),
      ];
      await create('clauses', { account_id: bound });
      const _csrf = await admin.token(accounts);
      const sent = { _csrf, id: [bound, free].map(String), at: 'q=partly' };
      const answer = await admin.post(`${accounts}/delete`, sent);
      assert.equal(answer.headers.get('location'), `${accounts}?q=partly&done=records-deleted-partly`);
      const after = await follow(answer);
      assert.equal(messageOf(after), '1 account deleted. The others do not exist or cannot be deleted.');
      const names = async () => {
        const { json } = await instance().call('GET /api/v1/accounts?q=partly&sort=name', { key: acme.key });
        return (json.data as readonly { name: string }[]).map(({ name }) => name);
      };
      assert.deepEqual(await names(), ['Partly bound']);
      assert.equal(messageOf(await follow(await undo(after))), '1 account restored with new IDs.');
      assert.deepEqual(await names(), ['Partly bound', 'Partly free']);
    });

    test('the confirmation names the consequences for one and for several records', async () => {
      const consequence = async (resource: string, body: object) => {
        const ids = [];
        for (let count = 0; count < 2; count++) {
          const made = await instance().call(`POST /api/v1/${resource}`, { key: acme.key, body });
          ids.push(`id=${made.json.id}`);
        }
        const pages = await Promise.all(
          [`${ids[0]?.slice(3)}/delete`, `delete?${ids.join('&')}`].map((path) =>
            admin.get(`${data}/${resource}/${path}`),
          ),
        );
        return pages.map(({ text }) => />((?:Deletes|Moves) [^<]*)</.exec(readable(text))?.[1]);
      };
      const under = 'later under a new ID.';
      assert.deepEqual(await consequence('leads', { last_name: 'Consequence' }), [
        `Deletes the lead for everyone. Records that refer to it are kept but lose the reference. You can restore it ${under}`,
        `Deletes these records for everyone. Records that refer to them are kept but lose the reference. You can restore each of these records ${under}`,
      ]);
      assert.deepEqual(await consequence('opportunities', { name: 'Consequence' }), [
        `Deletes the opportunity for everyone. This is not possible while quotes refer to it. You can restore it ${under}`,
        `Deletes these records for everyone. This is not possible while quotes refer to them. You can restore each of these records ${under}`,
      ]);
      const rest = `You can restore each of these records ${under}`;
      assert.deepEqual(await consequence('accounts', { name: 'Consequence' }), [
        `Deletes the account for everyone, together with the parts that depend on it. This is not possible while clauses refer to these records. Other records that refer to it are kept but lose the reference. ${rest}`,
        `Deletes these records for everyone, together with the parts that depend on them. This is not possible while clauses refer to these records. Other records that refer to them are kept but lose the reference. ${rest}`,
      ]);
    });

    test('a record that another user has changed since the question is not deleted', async () => {
      const id = await make({ last_name: 'Asked' });
      const page = `${leads}/${id}/delete`;
      const form = formTo(await admin.get(page), page);
      await patch(id, { company: 'Theirs' });
      const refused = await admin.post(page, form?.values ?? {});
      assert.equal(refused.status, 412);
      assert.match(messageOf(refused), /^Someone else has changed this record since you opened it\./);
      assert.equal((await read(id)).company, 'Theirs');
      const again = formTo(refused, page);
      assert.equal(messageOf(await follow(await admin.post(page, again?.values ?? {}))), 'Asked deleted.');
    });

    test('a deletion that the member is not allowed to undo has no Undo button', async () => {
      const grants = [{ object: 'leads', actions: ['list', 'read', 'delete'] }] as const;
      const person = await makePerson(instance(), [{ organization: acme, grants }]);
      const browser = await signIn(instance(), person);
      const [one, two, three] = [
        await make({ last_name: 'Gone' }),
        await make({ last_name: 'Gone' }),
        await make({ last_name: 'Gone' }),
      ];
      const page = `${leads}/${one}/delete`;
      const single = await follow(await browser.submit(page, page), browser);
      assert.deepEqual([messageOf(single), undoIn(single)], ['Gone deleted.', undefined]);
      const sent = { _csrf: await browser.token('/setup/me'), id: [two, three] };
      const several = await follow(await browser.post(`${leads}/delete`, sent), browser);
      assert.deepEqual([messageOf(several), undoIn(several)], ['2 leads deleted.', undefined]);
    });

    test('more selected records than the confirmation names are deleted together', async () => {
      const records = Array.from({ length: 25 }, (_, index) => ({ last_name: `Lot ${index + 10}` }));
      const made = await instance().call('POST /api/v1/leads/batch', { key: acme.key, body: { records } });
      const ids = (made.json.results as readonly { id: number }[]).map(({ id }) => String(id));
      const query = 'q=lot';
      const selection = new URLSearchParams({ at: query, query });
      for (const id of ids) selection.append('id', id);
      const question = await admin.get(`${leads}/delete?${selection}`);
      assert.equal(titleOf(question), 'Delete 25 leads?');
      assert.match(question.text, /<li>and 5 more<\/li>/);
      assert.doesNotMatch(question.text, /value="all"/, 'all in the list are selected');
      const confirmed = [...question.text.matchAll(/name="id" value="(\d+)"/g)].map(([, id = '']) => id);
      assert.deepEqual(confirmed, ids);
      const form = formTo(question, `${leads}/delete`);
      const after = await follow(await admin.post(`${leads}/delete`, { ...form?.values, id: confirmed }));
      assert.equal(messageOf(after), '25 leads deleted.');
      for (const id of ids)
        assert.equal((await instance().call(`GET /api/v1/leads/${id}`, { key: acme.key })).status, 404);
    });

    test('all records that match the filters of the list are deleted, and no others', async () => {
      const company = 'Everything';
      const records = Array.from({ length: 30 }, (_, index) => ({ last_name: `E${index + 10}`, company }));
      await instance().call('POST /api/v1/leads/batch', { key: acme.key, body: { records } });
      const kept = await make({ last_name: 'Kept' });
      const query = 'q=everything';
      const list = await admin.get(`${leads}?${query}`);
      const selection = new URLSearchParams({ at: query, query });
      const ids = [...list.text.matchAll(/name="id" value="(\d+)"/g)].map(([, id = '']) => id);
      assert.equal(ids.length, 20);
      for (const id of ids) selection.append('id', id);
      const question = await admin.get(`${leads}/delete?${selection}`);
      assert.match(question.text, />Delete 20 leads<.*value="all">Delete all 30 leads in the list</);
      const form = formTo(question, `${leads}/delete`);
      const after = await follow(
        await admin.post(`${leads}/delete`, { ...form?.values, id: ids, step: 'all' }),
      );
      assert.equal(messageOf(after), '30 leads deleted.');
      assert.equal((await read(kept)).last_name, 'Kept');
      assert.equal(messageOf(await follow(await undo(after))), '30 leads restored with new IDs.');
      assert.match((await admin.get(`${leads}?${query}`)).text, /1–20 of 30/);
    });

    describe('an import', () => {
      before(() => {
        instance().app.importWaitMs = patienceMs;
      });
      const accounts = `${data}/accounts`;
      const names = async (prefix: string) => {
        const { json } = await instance().call(`GET /api/v1/accounts?q=${prefix}&sort=name`, {
          key: acme.key,
        });
        return (json.data as readonly { id: number; name: string; website?: string }[]).filter(({ name }) =>
          name.startsWith(prefix),
        );
      };
      const importNames = async (lines: readonly string[], browser = admin): Promise<Answer> => {
        const _csrf = await browser.token(`${accounts}/import`);
        const content = Buffer.from(lines.join('\n')).toString('base64');
        const fields = { _csrf, content, key: lines.join(), step: 'import' };
        return follow(await browser.post(`${accounts}/import`, fields), browser);
      };

      test('is undone with one click, except for records that have been changed or that others need', async () => {
        const done = await importNames(['name', 'Import one', 'Import two', 'Import three', 'Import four']);
        assert.equal(messageOf(done), '4 records imported.');
        const [four, one, , two] = await names('Import');
        await instance().call(`PATCH /api/v1/accounts/${one?.id}`, {
          ...{ key: acme.key, body: { website: 'https://one.example' } },
        });
        for (const [resource, account] of [
          ['clauses', four],
          ['parts', two],
        ] as const) {
          const body = { account_id: account?.id };
          assert.equal(
            (await instance().call(`POST /api/v1/${resource}`, { key: acme.key, body })).status,
            201,
          );
        }
        const undone = await follow(await undo(done));
        assert.equal(
          messageOf(undone),
          'Import of 1 account undone. The others have been changed since, or other records depend on them.',
        );
        assert.deepEqual(
          (await names('Import')).map(({ name }) => name),
          ['Import four', 'Import one', 'Import two'],
        );
        assert.equal(undoIn(undone), undefined);
      });

      test('is undone completely', async () => {
        const undone = await follow(await undo(await importNames(['name', 'Whole one', 'Whole two'])));
        assert.equal(messageOf(undone), 'Import of 2 accounts undone.');
        assert.deepEqual(await names('Whole'), []);
      });

      test('cannot be undone by members who cannot delete, or if it has too many records', async () => {
        const grants = [{ object: 'accounts', actions: ['list', 'read', 'create'] }] as const;
        const person = await makePerson(instance(), [{ organization: acme, grants }]);
        const writer = await signIn(instance(), person);
        const done = await importNames(['name', 'Kept'], writer);
        assert.deepEqual([messageOf(done), undoIn(done)], ['1 record imported.', undefined]);
        const many = Array.from({ length: 1001 }, (_, index) => `Many ${index}`);
        const large = await importNames(['name', ...many]);
        assert.deepEqual([messageOf(large), undoIn(large)], ['1,001 records imported.', undefined]);
      });
    });

    test('another member cannot restore these records, and a reader cannot delete them', async () => {
      const ids = [await make({ last_name: 'Mine' }), await make({ last_name: 'Mine' })];
      const browser = await signIn(instance(), await makePerson(instance(), [{ organization: acme }]));
      const _csrf = await admin.token(leads);
      const after = await follow(await admin.post(`${leads}/delete`, { _csrf, id: ids }));
      const form = undoIn(after) ?? assert.fail();
      const token = await browser.token(leads);
      assert.equal((await browser.post(form.action, { ...form.values, _csrf: token })).status, 404);
      const grants = [{ object: 'leads', actions: ['list', 'read', 'create'] }] as const;
      const reader = await signIn(instance(), await makePerson(instance(), [{ organization: acme, grants }]));
      const list = await reader.get(leads);
      assert.doesNotMatch(list.text, /Delete selected|Edit selected/);
      const csrf = await reader.token(`${leads}/new`);
      const kept = await make({ last_name: 'Kept' });
      for (const answer of [
        await reader.get(`${leads}/delete?id=${kept}`),
        await reader.post(`${leads}/delete`, { _csrf: csrf, id: kept }),
      ])
        assert.equal(answer.status, 403);
      assert.equal((await read(kept)).last_name, 'Kept');
    });

    test("undo changes only the member's own records of the list", async () => {
      const beta = await instance().organization('beta');
      const person = await makePerson(instance(), [{ organization: acme }, { organization: beta }]);
      const browser = await signIn(instance(), person);
      const _csrf = await browser.token('/setup/me');
      const ids = [await make({ last_name: 'Own' }), await make({ last_name: 'Own' })];
      await follow(await browser.post(`${leads}/delete`, { _csrf, id: ids }), browser);
      const changes = tablesOf(instance().database).selectFrom('crm_ledger').select('transaction');
      const { transaction } = await changes
        .where('object', '=', 'leads')
        .where('object_id', '=', ids[0] ?? '')
        .where('action', '=', 'delete')
        .executeTakeFirstOrThrow();
      const change = String(transaction);
      for (const list of [`${data}/accounts`, '/setup/o/beta/data/leads'])
        assert.equal((await browser.post(`${list}/undo`, { _csrf, change })).status, 404, list);
      // A key can have the same ID as the member.
      const setKind = (kind: string) =>
        tablesOf(instance().database)
          .updateTable('crm_ledger')
          .set({ actor_kind: kind })
          .where('transaction', '=', transaction)
          .execute();
      await setKind('key');
      assert.equal((await browser.post(`${leads}/undo`, { _csrf, change })).status, 404);
      await setKind('user');
      const restored = await follow(await browser.post(`${leads}/undo`, { _csrf, change }), browser);
      assert.equal(messageOf(restored), '2 leads restored with new IDs.');
    });

    test('an organization visited before is opened after login', async () => {
      const zeta = await instance().organization('zeta');
      const person = await makePerson(instance(), [{ organization: acme }, { organization: zeta }]);
      const browser = await signIn(instance(), person);
      const home = async () => (await browser.get('/setup')).headers.get('location');
      assert.equal(await home(), '/setup/o/acme', 'the first one by name');
      await browser.get('/setup/o/zeta');
      assert.equal(await home(), '/setup/o/zeta');
      await browser.submit('/setup/me', '/setup/logout');
      const answer = await browser.submit('/setup/login', '/setup/login', {
        email: person.email,
        password: person.password,
      });
      assert.equal(answer.status, 303);
      assert.equal(await home(), '/setup/o/zeta');
      assert.match((await browser.get('/setup/me')).text, /action="\/setup\/o\/zeta\/search"/);
      browser.cookies.set('crm_recent_organizations', Buffer.from('nowhere.acme').toString('base64url'));
      assert.equal(await home(), '/setup/o/acme', 'organizations of other users are ignored');
    });
  },
  { sources },
);
