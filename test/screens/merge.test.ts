// Merging two selected records: the comparison, the form and its rejections, without JavaScript.
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { sql } from 'kysely';
import { tablesOf } from '../../engine/tables/handle.ts';
import { administratorOf, formsOf, readable, signIn, type Visitor } from '../support/forms.ts';
import { type Answer, type Organization, onBothDrivers } from '../support/instance.ts';
import { limitedPerson } from '../support/limited.ts';
import { sourcesWith } from '../support/sources.ts';

const sources = await sourcesWith(
  {
    file: 'firms.yaml',
    text: `
singular: firm
common: all
trash: 30 days
fields:
  name: { type: string }
  phone: { type: string }
  size: { type: integer, nullable: true }
  margin: { type: number, nullable: true, group: finance }
  tag_ids: { type: references, to: tags }
  code: { type: string, unique: true }
search: [name]
scopes: { small: size < 10 }
`,
  },
  { file: 'tags.yaml', text: 'singular: tag\ncommon: all\nfields:\n  name: { type: string }\n' },
  {
    file: 'visits.yaml',
    text: `
singular: visit
common: all
fields:
  name: { type: string }
  firm_id: { type: reference, to: firms, nullable: true }
unique: [[name, firm_id]]
`,
  },
);

const firms = '/setup/o/acme/data/firms';
const titleOf = ({ text }: Answer): string => readable(/<h1>(.*?)<\/h1>/.exec(text)?.[1] ?? '');
const messageOf = ({ text }: Answer): string =>
  readable(/<p class="(?:problem|notice)"[^>]*>(.*?)<\/p>/.exec(text)?.[1] ?? '').replace(/<\/?strong>/g, '');

/** Returns the rows of a comparison. The values that are kept are marked with an asterisk. */
const comparisonOf = ({ text }: Answer): readonly string[] =>
  [...text.matchAll(/<tr><th scope="row">(.*?)<\/th>(.*?)<\/tr>/g)].map(([, label, cells = '']) =>
    [
      label,
      ...[...cells.matchAll(/<td( class="kept")?>(.*?)<\/td>/g)].map(
        ([, isKept, cell = '']) =>
          `${isKept === undefined ? '' : '*'}${readable(cell.replace('Kept: ', '').replace(/<[^>]*>/g, ''))}`,
      ),
    ].join('|'),
  );

onBothDrivers(
  'the page that merges two records',
  (instance) => {
    let acme: Organization;
    let admin: Visitor;
    before(async () => {
      acme = await instance().organization('acme');
      admin = await signIn(instance(), administratorOf(acme));
    });
    const send = (request: string, body?: unknown) =>
      instance().call(request.replace(' /', ' /api/v1/'), { key: acme.key, body });
    const create = async (path: string, body: object): Promise<number> => {
      const { status, json, text } = await send(`POST /${path}`, body);
      assert.equal(status, 201, text);
      return Number(json.id);
    };
    const open = (ids: readonly number[], browser = admin) =>
      browser.get(`${firms}/merge?${ids.map((id) => `id=${id}`).join('&')}&at=q%3Da&query=q%3Da`);
    const submit = (page: Answer, ids: readonly number[], browser = admin) => {
      const form = formsOf(page).find(({ action }) => action === `${firms}/merge`);
      return browser.post(`${firms}/merge`, { ...form?.values, id: ids.map(String) });
    };

    test('from a record, the other record is found by its name or ID', async () => {
      const [id, from] = [
        await create('firms', { name: 'Ledger' }),
        await create('firms', { name: 'Ledger Ltd' }),
      ];
      const another = await create('firms', { name: 'Ledger Inc' });
      const record = await admin.get(`${firms}/${id}`);
      assert.match(record.text, new RegExp(`href="${firms}/${id}/merge">Merge another firm<`));
      const form = `${firms}/${id}/merge`;
      const suggested = (await admin.get(form)).text;
      assert.match(suggested, new RegExp(`<option value="Ledger Ltd \\(${from}\\)">`));
      assert.ok(!suggested.includes(`<option value="Ledger (${id})">`), 'not the record itself');
      for (const other of ['Ledger Ltd', `Ledger Ltd (${from})`, String(from)]) {
        const found = await admin.submit(form, form, { other });
        assert.equal(found.headers.get('location'), `${firms}/merge?id=${id}&id=${from}`, other);
      }
      for (const [other, problem] of [
        ['', 'Enter the other record.'],
        ['Ledger', 'This is the same record.'],
        ['nothing', 'No firm found.'],
        ['Led', 'Several firms match. Choose one from the list.'],
      ] as const) {
        const rejected = await admin.submit(form, form, { other });
        assert.deepEqual([rejected.status, readable(rejected.text).includes(problem)], [400, true], other);
        const offers = rejected.text.includes(`<option value="Ledger Ltd (${from})">`);
        assert.equal(offers, other !== 'nothing', 'suggests the records that it has found');
      }
      await send(`DELETE /firms/${another}`);
      const reader = await signIn(
        instance(),
        await limitedPerson(instance(), acme, ['firms:list', 'firms:read']),
      );
      assert.doesNotMatch((await reader.get(`${firms}/${id}`)).text, /Merge another/);
      assert.equal((await reader.get(form)).status, 403);
    });

    test('two selected records are compared and merged, and the list shows the result', async () => {
      const [red, blue] = [await create('tags', { name: 'red' }), await create('tags', { name: 'blue' })];
      const id = await create('firms', { name: 'Acme', size: 0, tag_ids: [red] });
      const from = await create('firms', { name: 'ACME Inc', phone: '1', size: 7, tag_ids: [blue] });
      const visit = await create('visits', { firm_id: from });
      const list = await admin.get(firms);
      assert.match(list.text, new RegExp(`formaction="${firms}/merge" data-pair>.*?Merge two selected`));
      const page = await open([id, from]);
      assert.equal(titleOf(page), 'Merge ACME Inc into Acme?');
      assert.deepEqual(comparisonOf(page), [
        'Name|*Acme|ACME Inc',
        'Phone||*1',
        'Size|*0|7',
        'Tags|*red|*blue',
      ]);
      assert.match(page.text, /where it can be restored for 30 days/);
      const swapped = await admin.get(
        readable(/href="([^"]*)"[^>]*>Keep ACME Inc instead/.exec(page.text)?.[1] ?? ''),
      );
      assert.equal(titleOf(swapped), 'Merge Acme into ACME Inc?');
      const answer = await submit(page, [id, from]);
      assert.equal(answer.headers.get('location'), `${firms}?q=a&done=record-merged`);
      assert.equal(
        messageOf(await admin.get(`${firms}?q=a&done=record-merged`)),
        'The records were merged into Acme.',
      );
      const { json } = await send(`GET /firms/${id}`);
      assert.deepEqual([json.phone, json.size, json.tag_ids], ['1', 0, [red, blue]]);
      assert.equal((await send(`GET /firms/${from}`)).status, 404);
      assert.equal((await send(`GET /visits/${visit}`)).json.firm_id, id);
    });

    test('a merge is undone by the button next to its message, or later from the record', async () => {
      const [id, from] = [
        await create('firms', { name: 'Kept' }),
        await create('firms', { name: 'Other', phone: '1' }),
      ];
      const merge = async () => {
        const answer = await submit(await open([id, from]), [id, from]);
        return admin.get(String(answer.headers.get('location')));
      };
      const undo = `${firms}/${id}/unmerge`;
      const stored = async (firm: number) => (await send(`GET /firms/${firm}`)).json;
      const button = formsOf(await merge()).find(({ action }) => action === undo);
      assert.equal(button?.values.from, String(from));
      const undone = await admin.post(undo, button.values);
      assert.equal(undone.headers.get('location'), `${firms}/${id}?done=record-unmerged`);
      assert.equal(
        messageOf(await admin.get(`${firms}/${id}?done=record-unmerged`)),
        'The merge into Kept was undone.',
      );
      assert.deepEqual([(await stored(id)).phone, (await stored(from)).phone], ['', '1']);
      assert.doesNotMatch((await admin.get(`${firms}/${id}`)).text, /Undo the merge/);

      await merge();
      const page = await admin.get(`${firms}/${id}`);
      const link = `${undo}?from=${from}`;
      assert.match(
        page.text,
        new RegExp(`href="${undo}\\?from&#x3D;${from}">Undo the merge of firm ${from}<`),
      );
      const question = await admin.get(link);
      assert.equal(titleOf(question), `Undo the merge of firm ${from} into Kept?`);
      assert.doesNotMatch(question.text, /class="danger"/);
      for (const grant of ['firms:update', 'firms:restore']) {
        const person = await limitedPerson(instance(), acme, ['firms:list', 'firms:read', grant]);
        const reader = await signIn(instance(), person);
        assert.doesNotMatch((await reader.get(`${firms}/${id}`)).text, /Undo the merge/, grant);
        assert.equal((await reader.get(link)).status, 403, grant);
        const _csrf = await reader.token('/setup/me');
        assert.equal((await reader.post(undo, { _csrf, from: String(from) })).status, 403, grant);
      }
      await send(`PATCH /firms/${id}`, { code: '' });
      await send(`POST /firms/${from}/restore`);
      const late = await admin.submit(link, undo, {});
      assert.equal(late.status, 409);
      assert.equal(messageOf(late), `The merge cannot be undone: record ${from} is not in the trash`);
      assert.equal((await admin.get(`${undo}?from=${id}`)).status, 404);
    });

    test('the latest five merges can be undone from the record, the newest first', async () => {
      const id = await create('firms', { name: 'Sink' });
      const merged: number[] = [];
      for (let index = 0; index < 6; index++) {
        const from = await create('firms', { name: `Source ${index}` });
        const { status, text } = await send(`POST /firms/${id}/merge`, { from });
        assert.equal(status, 200, text);
        merged.unshift(from);
      }
      const { text } = await admin.get(`${firms}/${id}`);
      assert.deepEqual(
        [...text.matchAll(/>Undo the merge of firm (\d+)</g)].map(([, from]) => Number(from)),
        merged.slice(0, 5),
      );
    });

    test('a merge is undone within 30 days, from the record that remained', async () => {
      const [id, from] = [await create('firms', { name: 'Old' }), await create('firms', { name: 'Older' })];
      const merged = await submit(await open([id, from]), [id, from]);
      assert.equal(merged.status, 303);
      const set = (assignments: string, record: number) =>
        sql`update crm_merges set ${sql.raw(assignments)} where from_id = ${from}::bigint and record_id = ${record}::bigint`.execute(
          tablesOf(instance().database),
        );
      const statuses = async (path: string) => {
        const isOffered = (await admin.get(path)).text.includes('Undo the merge');
        return [isOffered, (await admin.get(`${path}/unmerge?from=${from}`)).status];
      };
      assert.deepEqual(await statuses(`${firms}/${id}`), [true, 200]);
      for (const [days, expected] of [
        [29, [true, 200]],
        [31, [false, 404]],
      ] as const) {
        await set(`merged_at = now() - interval '${days} days'`, id);
        assert.deepEqual(await statuses(`${firms}/${id}`), expected, `after ${days} days`);
      }
      // A record of another resource can have the same ID.
      const tag = await create('tags', { name: 'same ID' });
      await set(`merged_at = now(), record_id = ${tag}`, id);
      assert.deepEqual(await statuses(`/setup/o/acme/data/tags/${tag}`), [false, 404]);
    });

    test('a record that was changed in the meantime, or a conflict, is explained on the page', async () => {
      const [id, from] = [await create('firms', { name: 'A' }), await create('firms', { name: 'B' })];
      const page = await open([id, from]);
      await send(`PATCH /firms/${id}`, { phone: '2' });
      const stale = await submit(page, [id, from]);
      assert.deepEqual([stale.status, messageOf(stale)], [412, 'The record has changed since it was read']);
      for (const firm of [id, from]) await create('visits', { name: 'same', firm_id: firm });
      const conflict = await submit(stale, [id, from]);
      assert.equal(conflict.status, 409);
      assert.match(messageOf(conflict), /^Several visits would have the same name and firm_id\./);
      assert.equal(titleOf(conflict), 'Merge B into A?');
      assert.equal((await send(`GET /firms/${from}`)).status, 200);
    });

    test('exactly two records must be selected', async () => {
      const [id, from] = [await create('firms', { name: 'A' }), await create('firms', { name: 'B' })];
      for (const ids of [[], [id], [id, id], [id, from, from + 1]]) {
        const answer = await open(ids);
        assert.equal(answer.status, 400);
        assert.match(answer.text, /Select exactly two firms to merge them\./);
      }
      assert.equal((await open([id, 999_999])).status, 404);
    });

    test('members need the grants, and see only their fields and records', async () => {
      const [id, from] = [
        await create('firms', { name: 'A', margin: 1, size: 1 }),
        await create('firms', { name: 'B', margin: 2, size: 20 }),
      ];
      const visitor = async (...grants: string[]) =>
        signIn(instance(), await limitedPerson(instance(), acme, grants));
      const reader = await visitor('firms:list', 'firms:read', 'firms:delete');
      assert.doesNotMatch((await reader.get(firms)).text, /data-pair/);
      assert.equal((await open([id, from], reader)).status, 403);
      const merger = await visitor('firms:list', 'firms:read', 'firms:update', 'firms:delete');
      const pair = [await create('firms', { name: 'C' }), await create('firms', { name: 'D' })];
      const merged = await submit(await open(pair, merger), pair, merger);
      const after = await merger.get(merged.headers.get('location') ?? '');
      assert.equal(messageOf(after), 'The records were merged into C.');
      assert.doesNotMatch(after.text, /\/unmerge"/, 'without the grant to restore');
      const unfinanced = await visitor('firms:*');
      assert.doesNotMatch((await open([id, from], unfinanced)).text, /Margin/);
      const scoped = await visitor('firms:*:small');
      assert.equal((await open([id, from], scoped)).status, 404);
    });
  },
  { sources },
);
