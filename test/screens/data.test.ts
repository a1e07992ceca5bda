// Records in the browser: lists, records, forms and CSV files of any resource, as far as a member's profile allows.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type IncomingMessage, request } from 'node:http';
import { text } from 'node:stream/consumers';
import { before, describe, test } from 'node:test';
import { everyType, stored } from '../support/every-type.ts';
import { administratorOf, formsOf, readable, signIn, type Visitor } from '../support/forms.ts';
import { type Answer, type Organization, onBothDrivers } from '../support/instance.ts';
import { fresh, makePerson } from '../support/people.ts';
import { patienceMs } from '../support/promised.ts';
import { sourcesWith } from '../support/sources.ts';

const data = '/setup/o/acme/data';

/** Returns the message above a page's content. */
const messageOf = ({ text }: Answer): string =>
  readable(/<p class="(?:problem|notice)"[^>]*>(.*?)<\/p>/.exec(text)?.[1] ?? '').replace(/<\/?strong>/g, '');
const titleOf = ({ text }: Answer): string => readable(/<h1>(.*?)<\/h1>/.exec(text)?.[1] ?? '');
/** Returns the row titles of a list. */
const rowsOf = ({ text }: Answer): string[] =>
  [...text.matchAll(/<th scope="row"[^>]*>(?:<a[^>]*>)?(.*?)</g)].map(([, title = '']) => readable(title));
/** Returns the error message below a form field. */
const errorAt = ({ text }: Answer, field: string): string =>
  readable(new RegExp(`id="notes-${field}"><p class="error">(.*?)</p>`).exec(text)?.[1] ?? '');
const valueAt = ({ text }: Answer, field: string): string =>
  readable(new RegExp(`name="${field}"[^>]* value="([^"]*)"`).exec(text)?.[1] ?? '');
const linkIn = ({ text }: Answer, label: RegExp): string =>
  readable(new RegExp(`<a[^>]*href="([^"]*)"[^>]*>(?:<svg.*?</svg>)?${label.source}`).exec(text)?.[1] ?? '');
/** Returns the page's form, ignoring the logout form. */
const formOf = (answer: Answer) =>
  formsOf(answer).find(({ action }) => action.startsWith(data)) ?? assert.fail(answer.text);
const follow = (browser: Visitor, answer: Answer): Promise<Answer> => {
  assert.equal(answer.status, 303, messageOf(answer));
  return browser.get(answer.headers.get('location') ?? '');
};
/** Fills in a form and submits it as a browser does, keeping the values of untouched fields. */
const fill = async (browser: Visitor, page: string, fields: Record<string, string>): Promise<Answer> => {
  const form = formOf(await browser.get(page));
  return browser.post(form.action, { ...form.values, ...fields });
};

onBothDrivers(
  'records in the browser',
  (instance) => {
    let acme: Organization;
    let admin: Visitor;
    before(async () => {
      instance().app.importWaitMs = patienceMs;
      acme = await instance().organization('acme');
      admin = await signIn(instance(), administratorOf(acme));
    });
    const make = async (resource: string, body: object): Promise<string> => {
      const made = await instance().call(`POST /api/v1/${resource}`, { key: acme.key, body });
      assert.equal(made.status, 201, made.text);
      return String(made.json.id);
    };
    const read = async (resource: string, id: string) =>
      (await instance().call(`GET /api/v1/${resource}/${id}`, { key: acme.key })).json;

    test('lists can be searched, filtered, sorted and paged, with selected columns', async () => {
      for (let number = 10; number < 35; number++)
        await make('leads', {
          first_name: 'Ann',
          last_name: `L${number}`,
          rating: number % 2 ? 'Hot' : 'Cold',
          lead_score: number,
        });
      await make('leads', { last_name: 'Świąt', company: 'Elsewhere' });
      const list = await admin.get(`${data}/leads?sort=last_name`);
      assert.match(
        list.text,
        /aria-current="page"><span class="tile[^>]*>L<\/span><span class="ellipsis">Leads</,
      );
      assert.deepEqual(rowsOf(list).slice(0, 2), ['Ann L10', 'Ann L11']);
      assert.match(list.text, /1–20 of 26/);
      const next = await admin.get(linkIn(list, /Next page/));
      assert.deepEqual(rowsOf(next), ['Ann L30', 'Ann L31', 'Ann L32', 'Ann L33', 'Ann L34', 'Świąt']);
      assert.deepEqual(rowsOf(await admin.get(`${data}/leads?q=elsewhere`)), ['Świąt']);
      const added = await admin.get(`${data}/leads?sort=last_name&by=rating%5Beq%5D&value=Cold`);
      const filtered = await follow(admin, added);
      assert.deepEqual(rowsOf(filtered).slice(0, 2), ['Ann L10', 'Ann L12'], 'the sort order is kept');
      assert.match(filtered.text, /aria-label="Remove the filter Rating is Cold"/);
      const removed = /href="([^"]*)"[^>]* aria-label="Remove the filter/.exec(filtered.text)?.[1] ?? '';
      assert.equal(readable(removed), `${data}/leads?sort=last_name`);
      const columns = await admin.get(
        `${data}/leads?columns=lead_score&columns=company&sort=lead_score&dir=desc`,
      );
      assert.deepEqual(
        [...columns.text.matchAll(/<th scope="col"[^>]*>(?:<a[^>]*>)?([^<]*)/g)].map(([, name]) =>
          name?.trim(),
        ),
        ['Lead', 'Company', 'Lead score', ''],
      );
      assert.equal(rowsOf(columns)[0], 'Ann L34');
      assert.match(columns.text, /aria-sort="descending"/);
      const owners = await admin.get(`${data}/leads?q=elsewhere&columns=owner_id&columns=budget`);
      assert.match(owners.text, /<td data-label="Owner"[^>]*>.*?admin@acme\.example/);
      assert.doesNotMatch(owners.text, /name="columns" value="budget"/, 'a field that does not exist');
      for (const other of ['fields=id', 'expand=owner', 'utm_source=mail'])
        assert.deepEqual(rowsOf(await admin.get(`${data}/leads?q=elsewhere&${other}`)), ['Świąt'], other);
      const wrong = await admin.get(`${data}/leads?created_at%5Bgt%5D=soon`);
      assert.deepEqual([wrong.status, rowsOf(wrong).length], [400, 0]);
      assert.match(messageOf(wrong), /^created_at\[gt\] must be an RFC 3339 timestamp/);
    });

    test("a list's position applies only to the page itself, not to its other links and forms", async () => {
      const company = fresh('Company');
      const records = Array.from({ length: 25 }, (_, index) => ({ last_name: `P${index + 10}`, company }));
      const made = await instance().call('POST /api/v1/leads/batch', { key: acme.key, body: { records } });
      assert.equal(made.status, 200, made.text);
      const list = `${data}/leads?q=${company}&sort=last_name&rating%5Bne%5D=Hot`;
      for (const start of ['', '&page=1']) {
        const first = await admin.get(list + start);
        assert.equal(rowsOf(first).length, 20, start);
        const next = linkIn(first, /Next page/);
        assert.doesNotMatch(next, /\bpage=/);
        const second = await admin.get(next);
        assert.deepEqual(rowsOf(second), ['P30', 'P31', 'P32', 'P33', 'P34']);
        assert.equal(linkIn(second, /First page/), readable(list));
      }
      const second = await admin.get(`${list}&page=2`);
      assert.deepEqual(rowsOf(second), ['P30', 'P31', 'P32', 'P33', 'P34']);
      assert.equal(linkIn(second, /First page/), readable(list));
      assert.doesNotMatch(second.text, /[?&;](?:page|cursor)=|name="(?:page|cursor)"/);
    });

    test('each value of a filter is removed separately, and the other values and filters are kept', async () => {
      const company = fresh('Company');
      for (const rating of ['Hot', 'Warm', 'Cold'])
        await make('leads', { last_name: rating, company, rating, source: 'Web' });
      const kept = `q=${company}&sort=last_name&source=Web`;
      const page = await admin.get(`${data}/leads?${kept}&rating=Hot&rating=Cold`);
      assert.deepEqual(rowsOf(page), ['Cold', 'Hot']);
      const removals = new Map(
        [...page.text.matchAll(/href="([^"]*)"[^>]* aria-label="Remove the filter ([^"]*)"/g)].map(
          ([, link = '', label = '']) => [label, readable(link)],
        ),
      );
      assert.deepEqual(Object.fromEntries(removals), {
        'Source is Web': `${data}/leads?q=${company}&sort=last_name&rating=Hot&rating=Cold`,
        'Rating is Hot': `${data}/leads?${kept}&rating=Cold`,
        'Rating is Cold': `${data}/leads?${kept}&rating=Hot`,
      });
      assert.deepEqual(rowsOf(await admin.get(removals.get('Rating is Hot') ?? '')), ['Cold']);
      const added = await follow(
        admin,
        await admin.get(`${data}/leads?${kept}&rating=Hot&by=rating&value=Warm`),
      );
      assert.deepEqual(rowsOf(added), ['Hot', 'Warm']);
    });

    test('messages show a name as it was entered, never as HTML', async () => {
      const name = `<img src=x> "&amp;" 'O' ${fresh('tag')}`;
      const assertShown = (page: Answer, message: string) => {
        assert.ok(page.text.includes('<strong>&lt;img src'), page.text);
        assert.ok(!page.text.includes('<img'), page.text);
        assert.equal(messageOf(page), message);
      };
      const done = await fill(admin, `${data}/accounts/new`, { name });
      assertShown(await follow(admin, done), `${name} created.`);
      const id = /accounts\/(\d+)/.exec(done.headers.get('location') ?? '')?.[1] ?? '';
      const saved = await fill(admin, `${data}/accounts/${id}/edit`, { city: 'Here' });
      assertShown(await follow(admin, saved), `${name} saved.`);
      const deleted = await fill(admin, `${data}/accounts/${id}/delete`, {});
      assertShown(await follow(admin, deleted), `${name} deleted.`);
    });

    test('a column heading sorts by its column, first ascending, then in reverse order', async () => {
      const { definition } =
        instance().resources.find(({ name }) => name === 'accounts') ?? assert.fail('accounts');
      const { field: usual, direction } = definition.sort;
      // Empty lists do not have headings.
      await make('accounts', { name: fresh('Account') });
      const heading = async (query: string, name: string) => {
        const page = await admin.get(`${data}/accounts?columns=${name}${query}`);
        const headings = [...page.text.matchAll(/<th scope="col"([^>]*)><a[^>]*href="([^"]*)"/g)].map(
          ([, state = '', link = '']) => ({ order: state, href: readable(link) }),
        );
        const { order = '', href = '' } =
          headings.find(
            (heading) => new URL(heading.href, instance().url).searchParams.get('sort') === name,
          ) ?? {};
        const next = new URL(href, instance().url).searchParams;
        return [/aria-sort="(\w+)"/.exec(order)?.[1], next.get('sort'), next.get('dir')];
      };
      for (const name of ['city', 'industry'].filter((column) => definition.sort.choices.has(column))) {
        assert.deepEqual(await heading('', name), [undefined, name, 'asc']);
        assert.deepEqual(await heading(`&sort=${name}`, name), ['ascending', name, 'desc']);
        assert.deepEqual(await heading(`&sort=${name}&dir=asc`, name), ['ascending', name, 'desc']);
        assert.deepEqual(await heading(`&sort=${name}&dir=desc`, name), ['descending', name, 'asc']);
      }
      const [now, next] = direction === 'asc' ? ['ascending', 'desc'] : ['descending', 'asc'];
      for (const query of ['', `&sort=${usual.name}`])
        assert.deepEqual(await heading(query, usual.name), [now, usual.name, next], 'the default order');
    });

    test('a form shows an error below each invalid field, and creates one record however often it is submitted', async () => {
      const account = await make('accounts', { name: fresh('Acme') });
      const { name } = await read('accounts', account);
      const page = `${data}/opportunities/new`;
      const wrong = await fill(admin, page, {
        name: 'Gate',
        amount: 'much',
        close_date: 'soon',
        account_id: 'no such account',
      });
      assert.equal(wrong.status, 400);
      assert.equal(errorAt(wrong, 'account_id'), 'No account found.');
      const again = await fill(admin, page, { name: 'Gate', amount: 'much', close_date: 'soon' });
      assert.deepEqual([again.status, messageOf(again)], [400, 'Some fields are invalid.']);
      assert.equal(errorAt(again, 'amount'), 'amount must be a number');
      assert.match(errorAt(again, 'close_date'), /^close_date must be an RFC 3339/);
      assert.deepEqual(
        [valueAt(again, 'name'), valueAt(again, 'amount'), valueAt(again, 'close_date')],
        ['Gate', 'much', 'soon'],
      );
      assert.match(again.text, /name="amount" autofocus aria-invalid="true" aria-describedby="notes-amount"/);

      const form = formOf(again);
      const fields = {
        ...form.values,
        name: 'Gate',
        amount: '0.10',
        close_date: '2026-03-01 09:30 +01:00',
        account_id: String(name),
      };
      const [one, two] = [await admin.post(form.action, fields), await admin.post(form.action, fields)];
      assert.equal(one.headers.get('location'), two.headers.get('location'), 'created once');
      const record = await follow(admin, one);
      assert.deepEqual([titleOf(record), messageOf(record)], ['Gate', 'Gate created.']);
      assert.match(
        record.text,
        new RegExp(`href="${data}/accounts/${account}">${name}<`),
        'the link shows the account’s name',
      );
      assert.match(record.text, /Created by admin@acme\.example/);
      const id = (one.headers.get('location') ?? '').replace(/\D+$/, '').replace(/.*\/(\d+).*/, '$1');
      const stored = await read('opportunities', id);
      assert.deepEqual(
        [stored.amount, stored.close_date, String(stored.account_id)],
        [0.1, '2026-03-01T09:30:00+01:00', account],
      );
      assert.equal(String(stored.created_by_id), acme.user);
    });

    test('a field with suggested values is a choice, and any other value is entered next to it', async () => {
      const made = await fill(admin, `${data}/leads/new`, {
        ...{ last_name: 'Suggested', source: '…', 'source.other': 'Trade fair' },
      });
      const id = /\/leads\/(\d+)/.exec(made.headers.get('location') ?? '')?.[1] ?? assert.fail(made.text);
      const source = async () => (await read('leads', id)).source;
      assert.equal(await source(), 'Trade fair');
      const page = `${data}/leads/${id}/edit`;
      const open = await admin.get(page);
      assert.match(
        open.text,
        /<select id="in-source"[^>]*><option value="">–<\/option><option value="Website">Website<\/option>.*<option value="…" selected>Another value…<\/option><\/select>/,
      );
      assert.equal(valueAt(open, 'source\\.other'), 'Trade fair');
      assert.match(messageOf(await follow(admin, await fill(admin, page, {}))), /^No changes/);
      const late = formOf(open);
      await instance().call(`PATCH /api/v1/leads/${id}`, { key: acme.key, body: { company: 'Theirs' } });
      const refused = await admin.post(late.action, { ...late.values, 'source.other': 'Fair' });
      assert.deepEqual(
        [refused.status, valueAt(refused, 'source\\.other')],
        [412, 'Fair'],
        'the input is kept',
      );
      // The browser also sends the text of an input that it does not show.
      await follow(admin, await fill(admin, page, { source: 'Referral' }));
      assert.equal(await source(), 'Referral');
      await follow(admin, await fill(admin, page, { source: '…', 'source.other': '' }));
      assert.equal(await source(), 'Referral', 'a listed value stays if no other one is entered');
      await follow(admin, await fill(admin, page, { source: '', 'source.other': 'Trade fair' }));
      assert.equal(await source(), '');
    });

    test('a form without values creates a record only after a question', async () => {
      const count = async () =>
        Number(
          (
            await instance().call('GET /api/v1/leads', { key: acme.key, headers: { prefer: 'count=exact' } })
          ).headers.get('x-total-count'),
        );
      const before = await count();
      const page = `${data}/leads/new`;
      const asked = await fill(admin, page, { company: '  ' });
      assert.equal(asked.status, 400);
      assert.equal(messageOf(asked), 'No values entered. Enter at least one value, or create an empty lead.');
      assert.match(asked.text, /name="step" value="empty">Create empty lead</);
      assert.equal(await count(), before);
      const form = formOf(asked);
      await follow(admin, await admin.post(form.action, { ...form.values, step: 'empty' }));
      assert.equal(await count(), before + 1);
      // Neither do defaults and checkboxes count as values.
      assert.equal((await fill(admin, `${data}/loose/new`, {})).status, 400);
    });

    test("editing writes only changed fields and does not overwrite another user's changes", async () => {
      const id = await make('leads', { last_name: 'Ames', description: 'one\r\ntwo\r\nthree', company: 'A' });
      const page = `${data}/leads/${id}/edit`;
      const open = formOf(await admin.get(page));
      const typed = { ...open.values, last_name: 'Bond', description: 'one\r\ntwo\r\nthree' };
      const saved = await follow(admin, await admin.post(open.action, typed));
      assert.equal(messageOf(saved), 'Bond saved.');
      assert.equal((await read('leads', id)).description, 'one\r\ntwo\r\nthree', 'unchanged to the byte');
      assert.match(
        saved.text,
        /<strong>Last name<\/strong> <del>Ames<\/del> <span class="hidden">to<\/span> <ins>Bond<\/ins>/,
      );
      assert.equal(
        saved.text.match(/<li><strong>/g)?.length,
        1,
        'neither the last change nor initial values',
      );
      const same = await fill(admin, page, { description: 'one\r\ntwo\r\nthree' });
      assert.equal(messageOf(await follow(admin, same)), 'No changes to Bond.');

      const late = formOf(await admin.get(page));
      await instance().call(`PATCH /api/v1/leads/${id}`, { key: acme.key, body: { company: 'Theirs' } });
      const refused = await admin.post(late.action, { ...late.values, company: 'Ours', description: 'x' });
      assert.equal(refused.status, 412);
      assert.match(messageOf(refused), /^Someone else has changed this record since you opened it\. /);
      assert.equal(valueAt(refused, 'company'), 'Ours', 'the input is kept');
      assert.match(refused.text, /Current value: Theirs/);
      assert.equal((await read('leads', id)).company, 'Theirs');
      await instance().call(`PATCH /api/v1/leads/${id}`, { key: acme.key, body: { company: '' } });
      const emptied = await admin.post(late.action, { ...late.values, company: 'Ours', description: 'x' });
      assert.match(emptied.text, /Current value: empty/);
      const again = formOf(emptied);
      await follow(admin, await admin.post(again.action, { ...again.values, description: 'x' }));
      assert.equal((await read('leads', id)).company, 'Ours');

      // An error in the input does not hide the change of another user.
      const early = formOf(await admin.get(page));
      await instance().call(`PATCH /api/v1/leads/${id}`, { key: acme.key, body: { company: 'Theirs' } });
      const invalid = await admin.post(early.action, { ...early.values, company: 'Ours', lead_score: 'x' });
      assert.equal(invalid.status, 400);
      const corrected = formOf(invalid);
      const stale = await admin.post(corrected.action, { ...corrected.values, lead_score: '1' });
      assert.equal(stale.status, 412, stale.text);
      assert.match(stale.text, /Current value: Theirs/);
      assert.equal((await read('leads', id)).company, 'Theirs');
    });

    test('a conflict shows only the values that another user changed, whatever line breaks the browser sends', async () => {
      for (const stored of ['one\ntwo\nthree', 'one\r\ntwo\r\nthree'])
        for (const description of ['one\ntwo\nthree', 'one\r\ntwo\r\nthree']) {
          const id = await make('leads', { last_name: 'Ames', description: stored, company: 'A' });
          const late = formOf(await admin.get(`${data}/leads/${id}/edit`));
          const body = { company: 'Theirs' };
          await instance().call(`PATCH /api/v1/leads/${id}`, { key: acme.key, body });
          const refused = await admin.post(late.action, { ...late.values, last_name: 'Bond', description });
          assert.equal(refused.status, 412, refused.text);
          const current = [...refused.text.matchAll(/Current value: ([^<]*)</g)].map(([, value]) => value);
          assert.deepEqual(current, ['Ames', 'Theirs'], JSON.stringify([stored, description]));
        }
    });

    test('values that do not fit on a page are shortened, and linked as a whole', async () => {
      const long = (length: number) => 'x'.repeat(length);
      const id = await make('leads', { last_name: 'Long', description: long(1000) });
      for (const length of [1001, 4000, 4001])
        await instance().call(`PATCH /api/v1/leads/${id}`, {
          ...{ key: acme.key, body: { description: long(length) } },
        });
      const linksOn = async () =>
        [
          ...(await admin.get(`${data}/leads/${id}`)).text.matchAll(
            /href="([^"]*\/value\?[^"]*)" aria-label="([^"]*)"/g,
          ),
        ].map(
          ([, href = '', label = '']) =>
            [readable(label).replace(/ the change at .*/, ''), readable(href)] as const,
        );
      const links = await linksOn();
      const [after, before] = ['after', 'before'].map((side) => `Show full value of Description ${side}`);
      assert.deepEqual(
        links.map(([label]) => label),
        ['Show full value of Description', before, after, before, after, after],
      );
      const lengths = await Promise.all(links.map(async ([, href]) => (await admin.get(href)).text.length));
      assert.deepEqual(lengths, [4001, 4000, 4001, 1001, 4000, 1001]);
      const [, change = ''] = /change=([^&]*)/.exec(links[1]?.[1] ?? '') ?? [];
      const current = await admin.get(`${data}/leads/${id}/value?field=description&change=${change}`);
      assert.equal(current.text.length, 4001, 'without a side, the current value');
      await instance().call(`PATCH /api/v1/leads/${id}`, {
        ...{ key: acme.key, body: { description: long(4000) } },
      });
      assert.deepEqual((await linksOn())[0]?.[0], before, 'the current value fits');
    });

    test('a change can be undone; a record is deleted after a confirmation and can be restored', async () => {
      const id = await make('leads', { last_name: 'Ames', company: 'A' });
      await instance().call(`PATCH /api/v1/leads/${id}`, { key: acme.key, body: { company: 'B' } });
      const undo = linkIn(await admin.get(`${data}/leads/${id}`), /Undo</);
      const question = await admin.get(undo);
      assert.equal(titleOf(question), 'Undo this change to Ames?');
      assert.match(question.text, /<del>B<\/del> <span class="hidden">to<\/span> <ins>A<\/ins>/);
      const stale = formOf(question);
      await instance().call(`PATCH /api/v1/leads/${id}`, { key: acme.key, body: { phone: '1' } });
      assert.equal(
        (await admin.post(stale.action, stale.values)).status,
        412,
        'the record has changed since',
      );
      assert.equal(messageOf(await follow(admin, await fill(admin, undo, {}))), 'Change to Ames undone.');
      assert.equal((await read('leads', id)).company, 'A');

      const deletion = await admin.get(`${data}/leads/${id}/delete`);
      assert.equal(titleOf(deletion), 'Delete Ames?');
      const gone = await follow(admin, await fill(admin, `${data}/leads/${id}/delete`, {}));
      assert.equal(messageOf(gone), 'Ames deleted.');
      const page = await admin.get(`${data}/leads/${id}`);
      assert.match(page.text, /This record was deleted\./);
      const restored = await follow(admin, await fill(admin, linkIn(page, /Restore</), {}));
      assert.deepEqual([titleOf(restored), messageOf(restored)], ['Ames', 'Ames restored with a new ID.']);
      assert.equal((await admin.get(`${data}/leads/999999`)).status, 404);
    });

    test('a deleted record is restored once, and again only after the restored record is deleted', async () => {
      const id = await make('leads', { last_name: fresh('Lazarus') });
      await fill(admin, `${data}/leads/${id}/delete`, {});
      const question = linkIn(await admin.get(`${data}/leads/${id}`), /Restore</);
      const restore = async () => {
        const answer = await fill(admin, question, {});
        const page = await follow(admin, answer);
        assert.match(messageOf(page), / restored with a new ID\.$/);
        assert.doesNotMatch(page.text, /This record was deleted/);
        return /leads\/(\d+)/.exec(answer.headers.get('location') ?? '')?.[1] ?? '';
      };
      const ids = [id];
      for (let time = 0; time < 3; time++) {
        const restored = await restore();
        assert.equal(await restore(), restored, 'while the restored record exists');
        assert.ok(!ids.includes(restored));
        ids.push(restored);
        await fill(admin, `${data}/leads/${restored}/delete`, {});
      }
    });

    test('resubmitting a form creates a new record only after the first one is deleted', async () => {
      const form = formOf(await admin.get(`${data}/leads/new`));
      const send = async () => {
        const answer = await admin.post(form.action, { ...form.values, last_name: 'Phoenix' });
        assert.equal(messageOf(await follow(admin, answer)), 'Phoenix created.');
        return /leads\/(\d+)/.exec(answer.headers.get('location') ?? '')?.[1] ?? '';
      };
      const first = await send();
      await fill(admin, `${data}/leads/${first}/delete`, {});
      const second = await send();
      assert.notEqual(second, first);
      assert.equal(await send(), second);
      // Without the grant to read, it is unknown whether the first record still exists.
      const grants = [{ object: 'leads', actions: ['create'] as const }];
      const creator = await signIn(
        instance(),
        await makePerson(instance(), [{ organization: acme, grants }]),
      );
      const own = formOf(await creator.get(`${data}/leads/new`));
      const sent = [];
      for (let time = 0; time < 2; time++) {
        const answer = await creator.post(own.action, { ...own.values, last_name: 'Unseen' });
        sent.push([answer.status, answer.headers.get('location')]);
      }
      assert.deepEqual(sent[1], sent[0]);
      assert.equal(sent[0]?.[0], 303);
    });

    test('resubmitting a changed form asks for confirmation, keeps the input, and creates one more record', async () => {
      const name = fresh('Back');
      const form = formOf(await admin.get(`${data}/accounts/new`));
      await follow(admin, await admin.post(form.action, { ...form.values, name }));
      const changed = await admin.post(form.action, { ...form.values, name: `${name} 2`, city: 'Here' });
      assert.equal(changed.status, 422);
      assert.match(messageOf(changed), /^You already submitted this form, and a record was created/);
      assert.deepEqual([valueAt(changed, 'name'), valueAt(changed, 'city')], [`${name} 2`, 'Here']);
      const { action, values } = formOf(changed);
      const [one, two] = [await admin.post(action, values), await admin.post(action, values)];
      assert.equal(messageOf(await follow(admin, one)), `${name} 2 created.`);
      assert.equal(one.headers.get('location'), two.headers.get('location'), 'created once');
    });

    test('a reference is entered as a name, even one that ends with an ID, or selected as a name with its ID', async () => {
      const name = fresh('Branch');
      const plain = await make('accounts', { name });
      const other = await make('accounts', { name: `Other ${name}` });
      const numbered = await make('accounts', { name: `${name} (${other})` });
      const refer = async (account_id: string) => {
        const answer = await fill(admin, `${data}/contacts/new`, { last_name: 'Ames', account_id });
        if (answer.status !== 303) return errorAt(answer, 'account_id');
        const id = /contacts\/(\d+)/.exec(answer.headers.get('location') ?? '')?.[1] ?? '';
        return { id, account: String((await read('contacts', id)).account_id) };
      };
      const account = async (text: string) => {
        const made = await refer(text);
        return typeof made === 'string' ? made : made.account;
      };
      assert.equal(await account(`${name} (${other})`), numbered, 'the whole text is the name');
      assert.equal(await account(`${name} (${other}) (${numbered})`), numbered);
      assert.equal(await account(`${name} (${plain})`), plain);
      assert.equal(await account(plain), plain);
      assert.equal(await account(`ID ${plain}`), plain);
      assert.equal(await account(`Nobody (${plain})`), 'No account found.');
      assert.equal(await account(`${name} (999999)`), 'No account found.');
      // A partial match that contains the ID is a different record.
      const former = fresh('Former');
      for (const id of [plain, '999999']) {
        const partial = await make('accounts', { name: `The ${former} (${id})` });
        assert.equal(await account(`${former} (${id})`), 'No account found.');
        assert.equal(await account(`The ${former} (${id})`), partial);
      }
      assert.match(String(await account(former)), /^Several accounts match/);
      const wordy = await make('accounts', {
        name: `${fresh('one')} two three four five six seven eight nine`,
      });
      assert.equal(await account(String((await read('accounts', wordy)).name)), wordy);
      // Inputs do not show line breaks.
      const broken = fresh('Broken');
      const lines = await make('accounts', { name: `${broken}\nline` });
      assert.equal(await account(`${broken}line (${lines})`), lines);
      const names = Array.from({ length: 25 }, (_, index) => ({ name: `Suggested ${index}` }));
      await instance().call('POST /api/v1/accounts/batch', { key: acme.key, body: { records: names } });
      const [, list = ''] =
        /<datalist id="list-account_id">([\s\S]*?)<\/datalist>/.exec(
          (await admin.get(`${data}/contacts/new`)).text,
        ) ?? [];
      const suggested = [...list.matchAll(/value="([^"]*)"/g)].map(([, value]) => value);
      assert.ok(suggested.length > 25, `${suggested.length} records of several pages`);
      assert.equal(new Set(suggested).size, suggested.length);
      const only = await make('accounts', { name: `The only ${fresh('Match')}` });
      assert.equal(await account('only match-'), only, 'without an ID, a partial match is enough');
      await make('accounts', { name: `${name} (${plain})` });
      assert.equal(
        await account(`${name} (${plain})`),
        `This could be ID ${plain} or a record named "${name} (${plain})". Type only the ID.`,
      );
      const kept = await refer(plain);
      assert.ok(typeof kept !== 'string');
      const edit = `${data}/contacts/${kept.id}/edit`;
      assert.equal(formOf(await admin.get(edit)).values.account_id, `${name} (${plain})`);
      await follow(admin, await fill(admin, edit, { title: 'Chief' }));
      const chief = await read('contacts', kept.id);
      assert.deepEqual(
        [String(chief.account_id), chief.title],
        [plain, 'Chief'],
        'an unchanged reference is kept, even if its text is ambiguous',
      );

      const made = await refer(other);
      assert.ok(typeof made !== 'string');
      const form = formOf(await admin.get(`${data}/contacts/${made.id}/edit`));
      assert.equal(form.values.account_id, `Other ${name} (${other})`);
      const rename = { key: acme.key, body: { name: 'Renamed concurrently' } };
      await instance().call(`PATCH /api/v1/accounts/${other}`, rename);
      const saved = await admin.post(form.action, { ...form.values, title: 'Boss' });
      await follow(admin, saved);
      const { account_id, title } = await read('contacts', made.id);
      assert.deepEqual([String(account_id), title], [other, 'Boss']);
    });

    describe("a member's profile restricts pages and actions", () => {
      const member = async (grants: NonNullable<Parameters<typeof makePerson>[1][number]['grants']>) =>
        signIn(instance(), await makePerson(instance(), [{ organization: acme, grants }]));

      test('a reader cannot write', async () => {
        const id = await make('leads', { last_name: 'Ames' });
        const reader = await member([{ object: 'leads', actions: ['list', 'read'] }]);
        const list = await reader.get(`${data}/leads`);
        assert.equal(list.status, 200);
        assert.doesNotMatch(list.text, /Create lead|>Edit<|data-edit|Import CSV|>Accounts<|API keys/);
        const record = await reader.get(`${data}/leads/${id}`);
        assert.doesNotMatch(record.text, /Edit lead|Delete lead|>Undo</);
        assert.match(record.text, /<dt>Company</, 'a field is shown even if it is empty');
        const blind = await member([{ object: 'leads', actions: ['list', 'update', 'delete'] }]);
        assert.doesNotMatch(
          (await blind.get(`${data}/leads`)).text,
          /data-edit|>Edit<|>Delete<|Edit selected|Delete selected/,
          'without the grant to read',
        );
        const _csrf = await reader.token(`${data}/leads`);
        for (const page of ['new', `${id}/edit`, `${id}/delete`, 'import']) {
          assert.equal((await reader.get(`${data}/leads/${page}`)).status, 403, page);
          const sent = await reader.post(`${data}/leads/${page}`, {
            _csrf,
            last_name: 'X',
            content: 'YQ==',
            file: 'YQ==',
          });
          assert.equal(sent.status, 403, page);
        }
        assert.equal((await reader.get(`${data}/accounts`)).status, 403);
        assert.equal((await read('leads', id)).last_name, 'Ames');
      });

      test("a record's page lists the records that refer to it, if the member can list them", async () => {
        const account = await make('accounts', { name: fresh('Referred') });
        const contact = await make('contacts', { last_name: 'Ada', account_id: Number(account) });
        const opportunity = await make('opportunities', { name: 'Sale', account_id: Number(account) });
        const page = (browser: Visitor) => browser.get(`${data}/accounts/${account}`);
        const complete = await page(admin);
        const { text } = complete;
        assert.match(
          text,
          new RegExp(
            `<h2>Contacts \\(1\\)</h2>\\s*<ul class="related"><li><a href="${data}/contacts/${contact}">Ada</a>`,
          ),
        );
        assert.match(text, new RegExp(`<a href="${data}/opportunities/${opportunity}">Sale</a>`));
        assert.match(
          text,
          /<h2>Cases<\/h2>\s*<p class="links"><a href="[^"]*">(?:<svg.*?<\/svg>)?Add case</,
          'no case refers to it',
        );
        const all = linkIn(complete, /Show all/);
        assert.equal(all, `${data}/contacts?account_id=${account}`);
        assert.deepEqual(rowsOf(await admin.get(all)), ['Ada']);
        const reader = await member([
          { object: 'accounts', actions: ['read', 'list'] },
          { object: 'contacts', actions: ['list'] },
          { object: 'opportunities', actions: ['read'] },
        ]);
        const part = (await page(reader)).text;
        assert.match(part, /<h2>Contacts \(1\)/);
        assert.doesNotMatch(part, /Opportunities|Sale|Cases|Add /);
      });

      test("a record's page shows the first 20 records that refer to it, and says if there are more", async () => {
        const account = await make('accounts', { name: fresh('Referred') });
        const heading = async () =>
          /<h2>(Contacts[^<]*)</.exec((await admin.get(`${data}/accounts/${account}`)).text)?.[1];
        const records = Array.from({ length: 20 }, () => ({ last_name: 'Ada', account_id: Number(account) }));
        const made = await instance().call('POST /api/v1/contacts/batch', {
          key: acme.key,
          body: { records },
        });
        assert.equal(made.status, 200, made.text);
        assert.equal(await heading(), 'Contacts (20)');
        await make('contacts', { last_name: 'Grace', account_id: Number(account) });
        assert.equal(await heading(), 'Contacts (20+)');
      });

      test('a list without records offers to create one, and a search without results offers to show all', async () => {
        const list = '/setup/o/empty/data/leads';
        const organization = await instance().organization('empty');
        const browser = await signIn(instance(), administratorOf(organization));
        const emptyOf = ({ text }: Answer) => /<div class="empty">([\s\S]*?)<\/div>/.exec(text)?.[1] ?? '';
        const empty = emptyOf(await browser.get(list));
        assert.match(empty, /No leads yet\./);
        assert.match(empty, new RegExp(`href="${list}/new"`));
        for (const query of ['q=nobody', 'rating=Hot']) {
          const none = emptyOf(await browser.get(`${list}?${query}`));
          assert.match(none, /No results\./);
          assert.match(none, new RegExp(`href="${list}">Show all<`));
        }
        const grants = [{ object: 'leads', actions: ['list'] as const }];
        const reader = await signIn(instance(), await makePerson(instance(), [{ organization, grants }]));
        assert.doesNotMatch(emptyOf(await reader.get(list)), /<a /);
      });

      test('a record is added to the record that it refers to', async () => {
        const name = fresh('Parent');
        const account = await make('accounts', { name });
        const page = await admin.get(`${data}/accounts/${account}`);
        const add = linkIn(page, /Add contact/);
        assert.equal(add, `${data}/contacts/new?account_id=${account}`);
        const form = formsOf(await admin.get(add)).find(({ action }) => action === `${data}/contacts/new`);
        assert.equal(form?.values.account_id, `${name} (${account})`);
        const sent = await admin.post(`${data}/contacts/new`, { ...form?.values, last_name: 'Added' });
        assert.equal(sent.status, 303, sent.text);
        const [, id] = /\/contacts\/(\d+)/.exec(sent.headers.get('location') ?? '') ?? [];
        assert.equal((await read('contacts', String(id))).account_id, Number(account));
        const beta = await instance().organization(fresh('beta'));
        const other = await instance().call('POST /api/v1/accounts', {
          key: beta.key,
          body: { name: 'Secret' },
        });
        assert.equal((await admin.get(`${data}/contacts/new?account_id=${other.json.id}`)).status, 404);
        // Without the grant to read or list accounts, the form is blank and suggests none.
        const writer = await member([{ object: 'contacts', actions: ['create'] }]);
        const unknown = await writer.get(`${data}/contacts/new?account_id=${account}`);
        assert.equal(unknown.status, 200, unknown.text);
        assert.equal(valueAt(unknown, 'account_id'), '');
        assert.ok(!unknown.text.includes(name));
        const blank = await admin.get(`${data}/contacts/new?account_id=x&last_name=Forged`);
        assert.equal(blank.status, 200);
        assert.doesNotMatch(blank.text, /value="Forged"/);
      });

      test('records of another organization are invisible at every URL', async () => {
        const beta = await instance().organization(fresh('beta'));
        const id = await make('leads', { last_name: 'Ours' });
        const theirs = await signIn(instance(), administratorOf(beta));
        assert.equal((await theirs.get(`${data}/leads/${id}`)).status, 403);
        assert.equal((await theirs.get(`/setup/o/${beta.slug}/data/leads/${id}`)).status, 404);
        assert.doesNotMatch((await theirs.get(`/setup/o/${beta.slug}/data/leads`)).text, /Ours/);
        assert.equal((await theirs.get(`/setup/o/${beta.slug}/data/nothing`)).status, 404);
      });

      test('forms without their token are rejected', async () => {
        const before = await make('leads', { last_name: 'Ames' });
        for (const page of ['new', `${before}/edit`, `${before}/delete`, `${before}/undo`, 'import'])
          assert.equal((await admin.post(`${data}/leads/${page}`, { last_name: 'X' })).status, 403, page);
      });
    });

    test('CSV: exported cells are never formulas, and an exported file is imported unchanged', async () => {
      const names = ['=1+1', '+1', '-1', '@x', '\t=1', '\r=2', "'t Hooft", "'=x", 'plain', 'a,"b",=c\r\n=d'];
      for (const name of names) await make('accounts', { name, city: 'Formulas' });
      const list = await admin.get(`${data}/accounts?q=zzz`);
      assert.match(linkIn(list, /Export CSV/), /export\?q=zzz$/, 'the export keeps the search');
      const file = await admin.get(`${data}/accounts/export`);
      assert.match(file.headers.get('content-disposition') ?? '', /^attachment; filename="accounts\.csv"$/);
      for (const name of ["'=1+1", "'+1", "'-1", "'@x", "'\t=1", "''t Hooft", "''=x", 'plain'])
        assert.ok(
          [`,${name},`, `,"${name}",`].some((cell) => file.text.includes(cell)),
          name,
        );
      assert.ok(file.text.includes(`"'\r=2"`));
      assert.ok(file.text.includes('"a,""b"",=c\r\n=d"'), 'only the start of a cell is escaped');
      const page = `${data}/accounts/import`;
      const send = async (fields: Record<string, string>) => fill(admin, page, fields);
      const checked = await send({ file: Buffer.from(file.text).toString('base64') });
      const lines = file.text.match(/,Formulas,/g) ?? [];
      assert.equal(lines.length, names.length);
      assert.match(checked.text, /<li>\d+ records to be created, 0 lines with errors\.<\/li>/);
      const count = async () =>
        Number(
          (
            await instance().call('GET /api/v1/accounts', {
              key: acme.key,
              headers: { prefer: 'count=exact' },
            })
          ).headers.get('x-total-count'),
        );
      const before = await count();
      const { action, values } = formOf(checked);
      const done = await follow(admin, await admin.post(action, { ...values, step: 'import' }));
      assert.match(messageOf(done), /^\d+ records imported\.$/);
      assert.equal(await count(), 2 * before, 'the check wrote nothing');
      for (const name of names) {
        const list = await instance().call(`GET /api/v1/accounts?${new URLSearchParams({ name })}`, {
          key: acme.key,
        });
        assert.equal((list.json.data as unknown[]).length, 2, name);
      }
    });

    test('CSV: columns with other names and delimiters are assigned to fields', async () => {
      const page = `${data}/accounts/import`;
      const columns = ['Account name', 'Sitz', 'Web-site', ''];
      const rows = [
        ['Müller; Söhne', 'Köln', 'https://a.example', 'x'],
        ['Zweite', 'Bonn', '', ''],
      ];
      const cell = (text: string) => (text.includes(';') ? `"${text}"` : text);
      const text = [columns, ...rows].map((cells) => cells.map(cell).join(';')).join('\r\n');
      const encoded = [
        Buffer.from(text, 'latin1'),
        Buffer.from(`\ufeff${text}`, 'utf16le'),
        Buffer.from(`\ufeff${text}`, 'utf16le').swap16(),
        Buffer.from(text),
      ];
      for (const [index, bytes] of encoded.entries()) {
        const checked = await fill(admin, page, { file: bytes.toString('base64') });
        assert.match(readable(checked.text), /2 records to be created/);
        assert.match(readable(checked.text), /For example: Köln · Bonn/);
        const chosen = (text: string) =>
          [...readable(text).matchAll(/<select id="in-column\.(\d)".*?<\/select>/gs)].map(
            ([select = '']) => /value="(\w*)" selected/.exec(select)?.[1] ?? '',
          );
        assert.deepEqual(chosen(checked.text), ['', '', 'website', '']);
        const { action, values } = formOf(checked);
        const choices = { 'column.0': 'name', 'column.1': 'city', 'column.2': 'website', 'column.3': '' };
        const assigned = await admin.post(action, { ...values, ...choices, step: '' });
        assert.match(readable(assigned.text), /2 records to be created, 0 lines with errors\./);
        assert.match(assigned.text, /name="step" value="import">Import 2 records</);
        assert.doesNotMatch(assigned.text, /Download errors/);
        assert.deepEqual(chosen(assigned.text), ['name', 'city', 'website', '']);
        const form = formOf(assigned);
        const sent = { ...form.values, ...choices, step: 'import' };
        const done = await follow(admin, await admin.post(form.action, sent));
        assert.equal(messageOf(done), '2 records imported.');
        const list = await instance().call('GET /api/v1/accounts?name=M%C3%BCller%3B%20S%C3%B6hne', {
          key: acme.key,
        });
        const [record, ...others] = list.json.data as { city: string; website: string }[];
        assert.deepEqual([record?.city, record?.website], ['Köln', 'https://a.example']);
        assert.equal(others.length, index);
      }
    });

    test('CSV: usual names of columns in English and German are assigned to fields', async () => {
      for (const [content, expected] of [
        ['Bezeichnung;Ort;Postcode\nErste;Köln;50667', ['name', 'city', 'postal_code']],
        // The field's own name precedes others, and a field is assigned only once.
        ['Bezeichnung;Ort;Wohnort;Name\nErste;Köln;Bonn;Zweite', ['', 'city', '', 'name']],
        // The start of the file that is read ends within the first record.
        [`Bezeichnung;Ort\n"${'x'.repeat(40_000)}";Köln`, ['name', 'city']],
      ] as const) {
        const file = Buffer.from(content).toString('base64');
        const { text } = await fill(admin, `${data}/accounts/import`, { file });
        const chosen = [...readable(text).matchAll(/<select id="in-column\.\d".*?<\/select>/gs)].map(
          ([select = '']) => /value="(\w*)" selected/.exec(select)?.[1] ?? '',
        );
        assert.deepEqual(chosen, expected, content.slice(0, 40));
      }
      // A column that cannot be chosen on the page keeps its field.
      const wide = `${Array.from({ length: 100 }, (_, index) => `#${index}#`).join(';')};name\n${';'.repeat(100)}Wide`;
      const checked = await fill(admin, `${data}/accounts/import`, {
        file: Buffer.from(wide).toString('base64'),
      });
      assert.match(checked.text, /1 record to be created/);
      const { action, values } = formOf(checked);
      assert.match((await admin.post(action, { ...values, step: 'check' })).text, /1 record to be created/);
    });

    test('CSV: a file without known columns can still be assigned, and errors are downloaded as CSV', async () => {
      const page = `${data}/leads/import`;
      const unknown = await fill(admin, page, { file: Buffer.from('nothing\n=1').toString('base64') });
      assert.equal(unknown.status, 200);
      assert.match(readable(unknown.text), /Choose the field that each column contains/);
      const { action, values } = formOf(unknown);
      const invalid = await admin.post(action, { ...values, 'column.0': 'owner_id' });
      assert.equal(invalid.status, 400);
      assert.match(messageOf(invalid), /^owner_id/);
      const checked = await admin.post(action, { ...values, 'column.0': 'lead_score' });
      assert.match(readable(checked.text), /Download errors/);
      assert.doesNotMatch(checked.text, /name="step" value="import"/, 'no line can be imported');
      const form = formOf(checked);
      const file = await admin.post(form.action, {
        ...form.values,
        'column.0': 'lead_score',
        step: 'errors',
      });
      assert.equal(file.headers.get('content-disposition'), 'attachment; filename="leads-errors.csv"');
      assert.match(file.text, /^line,error\r\n2,"lead_score must be [^"]*"\r\n$/);
      const broken = await fill(admin, page, { file: Buffer.from('last_name\n"Open').toString('base64') });
      assert.equal(broken.status, 400);
    });

    test('CSV: cells are escaped whatever the columns, and a file is imported once', async () => {
      await make('accounts', { name: 'Chosen', phone: '=1+1' });
      for (const query of ['fields=phone', 'fields=id,phone', 'fields=phone,description']) {
        const file = await admin.get(`${data}/accounts/export?name=Chosen&${query}`);
        assert.ok(!/[,\n]=1\+1/.test(file.text), `${query}: ${file.text}`);
        assert.match(file.text, /'=1\+1/);
      }
      await make('leads', { last_name: 'Negative', lead_score: -5 });
      assert.match(
        (await admin.get(`${data}/leads/export?q=negative`)).text,
        /,-5,/,
        'a number is not a formula',
      );
      const page = `${data}/accounts/import`;
      const content = Buffer.from('name\nTwice').toString('base64');
      const none = await fill(admin, page, {});
      assert.deepEqual([none.status, messageOf(none)], [400, 'choose a file']);
      const { action, values } = formOf(await fill(admin, page, { file: content }));
      // Another file is checked first, regardless of the button.
      const another = Buffer.from('name\nOther file\nOther file too').toString('base64');
      const replaced = await admin.post(action, {
        ...{ ...values, file: another, step: 'import' },
        // The choice for a column of the previous file.
        'column.0': '',
      });
      assert.match(replaced.text, /2 records to be created/);
      assert.equal(valueAt(replaced, 'content'), another);
      await follow(admin, await admin.post(action, { ...values, step: 'import' }));
      const again = await admin.post(action, { ...values, step: 'import' });
      assert.equal(again.status, 400);
      assert.match(messageOf(again), /^this form was already submitted/);
      const list = await instance().call('GET /api/v1/accounts?name=Twice&name=Other+file', {
        key: acme.key,
      });
      assert.equal((list.json.data as unknown[]).length, 1);
    });

    test('uploads are accepted only from members, and only with a limited number of parts', async () => {
      const part = '--b\r\ncontent-disposition: form-data; name="a"\r\n\r\n\r\n';
      const send = async (count: number, browser: Visitor | undefined) => {
        const cookie = [...(browser?.cookies ?? [])].map(([name, value]) => `${name}=${value}`).join('; ');
        return fetch(`${instance().url}${data}/accounts/import`, {
          method: 'POST',
          redirect: 'manual',
          headers: {
            'content-type': 'multipart/form-data; boundary=b',
            'sec-fetch-site': 'same-origin',
            cookie,
          },
          body: `${part.repeat(count)}--b--\r\n`,
        });
      };
      const stranger = await send(121, undefined);
      assert.deepEqual([stranger.status, stranger.headers.get('location')], [303, '/setup/login']);
      assert.equal((await send(120, admin)).status, 403, 'the body is read but contains no token');
      assert.equal((await send(121, admin)).status, 400);
      const content = 'x'.repeat(1024 * 1024);
      const plain = await admin.post(`${data}/accounts/import`, { content });
      assert.equal(plain.status, 413, 'a form without a file has the usual limit');
      const beta = await instance().organization(fresh('beta'));
      assert.equal((await send(121, await signIn(instance(), administratorOf(beta)))).status, 403);
    });

    describe('a multipart form', () => {
      const page = `${data}/accounts/import`;
      const disposition = (name: string) => `content-disposition: form-data; name="${name}"`;
      const part = (head: string, content: string) => `--b\r\n${head}\r\n\r\n${content}\r\n`;
      /**
       * Sends the start of a form with a Content-Length or, if the length is negative, a complete form in chunks. Returns
       * the response, which can arrive before the form is complete.
       */
      const send = async (start: string | Buffer, length = Buffer.byteLength(start)) => {
        const cookie = [...admin.cookies].map(([name, value]) => `${name}=${value}`).join('; ');
        const headers = {
          'content-type': 'multipart/form-data; boundary=b',
          ...(length >= 0 && { 'content-length': String(length) }),
          'sec-fetch-site': 'same-origin',
          cookie,
        };
        const sending = request(`${instance().url}${page}`, { method: 'POST', headers });
        if (length < 0) sending.end(start);
        else sending.write(start);
        const [response] = (await once(sending, 'response')) as [IncomingMessage];
        const answer = { status: response.statusCode, text: await text(response) };
        sending.destroy();
        return answer;
      };
      const token = async () => part(disposition('_csrf'), await admin.token(page));
      const file = (content: string) => part(`${disposition('file')}; filename="a.csv"`, content);

      test('is parsed, and returns the checked file in the confirmation form', async () => {
        const checked = await send(
          `${await token()}${file('name\nBy parts\n')}${part(disposition('match'), '')}--b--\r\n`,
        );
        assert.equal(checked.status, 200, checked.text);
        assert.match(checked.text, /<li>1 record to be created, 0 lines with errors\.<\/li>/);
        const content = Buffer.from('name\nBy parts\n').toString('base64');
        assert.ok(readable(checked.text).includes(`name="content" value="${content}"`));
        const key = readable(checked.text).match(/name="key" value="([^"]*)"/)?.[1] ?? '';
        const fields = { content, key, step: 'import' };
        const parts = Object.entries(fields).map(([name, value]) => part(disposition(name), value));
        const sent = await send(`${await token()}${file('')}${parts.join('')}--b--\r\n`);
        assert.equal(sent.status, 303, sent.text);
        // The checked file is longer in base64 than the largest file.
        const padded = Buffer.from(`name\nPadded\n${'\n'.repeat(4 * 1024 * 1024)}`).toString('base64');
        const large = part(disposition('content'), padded);
        const again = await send(`${await token()}${file('')}${large}--b--\r\n`);
        assert.match(again.text, /1 record to be created, 0 lines with errors/);
      });

      test('is not read beyond an invalid token', async () => {
        const megabytes = 14 * 1024 * 1024;
        // The parser recognizes the end of a part when the next part starts.
        const wrong = await send(`${part(disposition('_csrf'), 'wrong')}--b\r\n`, megabytes);
        assert.equal(wrong.status, 403);
        const late = await send(file('x'.repeat(512 * 1024)), megabytes);
        assert.equal(late.status, 403);
      });

      test('has limits for names, headers, parts and files', async () => {
        const named = async (name: string) =>
          (await send(`${await token()}${part(disposition(name), 'x')}--b--\r\n`)).status;
        assert.equal(await named('n'.repeat(101)), 400);
        assert.equal(await named('n'.repeat(2_000_000)), 400);
        for (const [length, problem] of [
          [4096, /choose a file/],
          [4097, /could not be read/],
        ] as const)
          assert.match(
            (await send(`${await token()}${part(disposition('match'), 'x'.repeat(length))}--b--\r\n`)).text,
            problem,
            'a value is never cut',
          );
        const lines = 'a: b\r\n'.repeat(400_000);
        const headers = await send(`${await token()}--b\r\n${lines}\r\nx\r\n--b--\r\n`);
        assert.equal(headers.status, 400);
        const parts = part(disposition('a'), 'x');
        assert.equal((await send(`${await token()}${parts.repeat(120)}`, 20_000)).status, 400);
        const large = await send(`${await token()}${file('x'.repeat(5 * 1024 * 1024 + 1))}--b--\r\n`);
        assert.deepEqual([large.status, /larger than 5 MiB/.test(large.text)], [400, true]);
        // The limit also applies to the text in UTF-8.
        const [before = '', after = ''] = `${await token()}${file('*')}--b--\r\n`.split('*');
        const umlauts = Buffer.from('ä'.repeat(3 * 1024 * 1024), 'latin1');
        const decoded = await send(Buffer.concat([Buffer.from(before), umlauts, Buffer.from(after)]));
        assert.deepEqual([decoded.status, /larger than 5 MiB/.test(decoded.text)], [400, true]);
        assert.equal((await send(await token(), 15 * 1024 * 1024 + 1)).status, 413);
        const chunked = `${await token()}${file('x'.repeat(15 * 1024 * 1024))}--b--\r\n`;
        assert.equal((await send(chunked, -1)).status, 413, 'without a Content-Length');
        assert.equal((await send(`${await token()}${file('name\nx')}`)).status, 400, 'the form is truncated');
      });
    });

    test('an untouched single-line field keeps its line breaks, which inputs do not show', async () => {
      const id = await make('leads', { last_name: 'Ames', company: 'one\ntwo' });
      const page = `${data}/leads/${id}/edit`;
      const same = await fill(admin, page, { company: 'onetwo', description: '' });
      assert.equal(messageOf(await follow(admin, same)), 'No changes to Ames.');
      assert.equal((await read('leads', id)).company, 'one\ntwo');
    });

    test('forms of a new YAML file store every field type exactly', async () => {
      const fields = Object.fromEntries(
        stored.map(([name, { examples }]) => [
          `n_${name}`,
          examples[0] === null ? '' : String(examples[1] ?? ''),
        ]),
      );
      const form = formOf(await admin.get(`${data}/loose/new`));
      assert.equal(form.values.p_int64, '', 'the default 0 looks like a blank input');
      const done = await admin.post(form.action, { ...form.values, ...fields });
      const page = await follow(admin, done);
      const id = /loose\/(\d+)/.exec(done.headers.get('location') ?? '')?.[1] ?? '';
      const record = await read('loose', id);
      for (const [name, { examples }] of stored)
        if (examples[0] !== null) assert.deepEqual(record[`n_${name}`], examples[1], name);
      assert.match(page.text, /<dt>N int64<\/dt>/);
      const tag = formOf(await admin.get(`${data}/loose/${id}/edit`));
      const big = '9007199254740993';
      await follow(
        admin,
        await admin.post(tag.action, { ...tag.values, n_text: String(fields.n_text), n_int64: big }),
      );
      const text = (await instance().call(`GET /api/v1/loose/${id}`, { key: acme.key })).text;
      assert.ok(text.includes(`"n_int64":${big}`), 'every digit is stored');
    });

    test('every field type can be cleared in the form without changing other fields', async () => {
      const self = await make('loose', {});
      const { id: member } = await makePerson(instance(), [{ organization: acme }]);
      const full = Object.fromEntries(
        stored.flatMap(([name, { examples, refers, users }]) => {
          const value =
            refers || users
              ? Number(refers ? self : member)
              : examples.findLast((example) => example !== null && example !== '');
          return value === undefined ? [] : [[`n_${name}`, value]];
        }),
      );
      assert.equal(Object.keys(full).length, stored.length, 'each type has a value');
      const id = await make('loose', full);
      const edit = `${data}/loose/${id}/edit`;
      const empty = await read('loose', await make('loose', {}));
      let expected = await read('loose', id);
      for (const [name] of stored.filter(([name]) => name !== 'boolean')) {
        const field = `n_${name}`;
        assert.notDeepEqual(expected[field], empty[field], `${field} has a value`);
        const form = formOf(await admin.get(edit));
        // `formOf` reads only inputs.
        const others = Object.fromEntries(
          stored
            .filter(([type, { users }]) => type === 'text' || users)
            .map(([type]) => [`n_${type}`, String(expected[`n_${type}`] ?? '')]),
        );
        const ticked = expected.n_boolean === true ? { n_boolean: 'true' } : {};
        await follow(
          admin,
          await admin.post(form.action, { ...form.values, ...others, ...ticked, [field]: '' }),
        );
        const saved = await read('loose', id);
        const cleared = saved[field];
        assert.ok(cleared === null || cleared === '', `${field}: ${JSON.stringify(cleared)}`);
        expected = { ...expected, [field]: cleared };
        assert.deepEqual(saved, expected, field);
      }
    });
  },
  { sources: await sourcesWith(...everyType) },
);
