// Fields of type `references`: lists of IDs that clients read, write, filter and expand, and what happens to them when
// the records to which they refer are deleted.
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { deleteOrganization } from '../../plugins/tenants/organizations/index.ts';
import { administratorOf, readable, signIn } from '../support/forms.ts';
import { type Answer, type Call, type Organization, onBothDrivers } from '../support/instance.ts';
import { limitedKey } from '../support/limited.ts';
import { logIn, makePerson } from '../support/people.ts';
import { rowHashes } from '../support/reading.ts';
import { sourcesWith } from '../support/sources.ts';

const source = (name: string, text: string) => ({
  file: `resources/${name}.yaml`,
  text: `singular: ${name.slice(0, -1)}
common: all
${text}sort: { by: created_at, direction: asc }
`,
});

const sources = [
  source(
    'tags',
    `fields:
  name: { type: string }
  secret: { type: boolean }
scopes:
  open: secret == false
search: [name]
`,
  ),
  source(
    'notes',
    `fields:
  name: { type: string, unique: true }
  tag_ids: { type: references, to: tags }
  see_ids: { type: references, to: notes }
  pinned_ids: { type: references, to: tags, on_delete: restrict }
  price_ids: { type: references, to: tags, group: prices }
filters: [{ field: tag_ids, operators: [eq, ne, in, any, all] }]
`,
  ),
];

/** A response's body. */
interface Json extends Record<string, unknown> {
  readonly id: number;
  readonly data: readonly Record<string, unknown>[];
  readonly expanded: Readonly<Record<string, readonly { readonly id: number }[]>>;
}

/** A change in the change feed. */
interface Change {
  readonly action: string;
  readonly resource: string;
  readonly id: number;
  readonly version: number;
  readonly changed: readonly string[];
  readonly after: Json;
}

onBothDrivers(
  'references',
  (instance) => {
    let alpha: Organization;
    let beta: Organization;
    /** Headers of a user who can read only the open tags. */
    let limited: Readonly<Record<string, string>>;
    before(async () => {
      alpha = await instance().organization('alpha');
      beta = await instance().organization('beta');
      const grants = ['tags:list:open', 'tags:read:open', 'notes:*', 'events:list'].map((text) => {
        const [object = '', ...action] = text.split(':');
        return { object, actions: [action.join(':')] } as never;
      });
      const person = await makePerson(instance(), [{ organization: alpha, grants }]);
      limited = (await logIn(instance(), person)).byToken;
    });
    const send = (
      request: string,
      body?: unknown,
      headers: Readonly<Record<string, string>> = {},
      key: string | undefined = alpha.key,
    ) =>
      instance().call(request.replace(' /', ' /api/v1/'), {
        headers,
        ...('authorization' in headers || key === undefined ? {} : { key }),
        ...(body !== undefined && { body }),
      });
    const ok = async (request: string, body?: unknown, headers?: Readonly<Record<string, string>>) => {
      const answer = await send(request, body, headers);
      assert.ok(answer.status < 300, `${request}: ${answer.text}`);
      return answer.json as Json;
    };
    const tag = async (name: string, secret = false) => (await ok('POST /tags', { name, secret })).id;
    const note = async (values: object) => (await ok('POST /notes', values)).id;
    const tagsOf = async (id: number, headers?: Readonly<Record<string, string>>) =>
      (await ok(`GET /notes/${id}`, undefined, headers)).tag_ids;
    const idsOf = async (query: string, headers?: Readonly<Record<string, string>>) =>
      (await ok(`GET /notes?${query}`, undefined, headers)).data.map(({ id }) => id);
    const rows = (text: string) => instance().database.run({ name: '', text, values: [] });
    /** Returns the rows of the link table for a note's tags. */
    const links = async (id: number) =>
      (
        await rows(`select "target_id"::text from "notes_Links_tag_ids" where "record_id" = ${id} order by 1`)
      ).map(([target]) => Number(target));
    /** Reads the change feed up to a version of a note, and returns the changes to the note. */
    const changesTo = async (id: number, since: string, version: number, caller: Call): Promise<Change[]> => {
      const changes: Change[] = [];
      // The feed omits changes while older transactions are running.
      for (let after = since; changes.at(-1)?.version !== version; ) {
        const { json } = await instance().call(`GET /events?after=${after}&wait=5`, caller);
        const data = json.data as readonly Change[];
        changes.push(...data.filter((change) => change.resource === 'notes' && change.id === id));
        after = String(json.next);
      }
      return changes;
    };
    const assertMissing = (answer: Answer, field: string, message: string) => {
      const { error, code, fields } = answer.json;
      assert.deepEqual(
        [answer.status, error, code, fields],
        [400, message, 'missing_reference', [{ field, message }]],
      );
    };

    test('a list is returned in ascending order and without duplicates', async () => {
      const [one, two] = [await tag('one'), await tag('two')];
      const created = await ok('POST /notes', { tag_ids: [two, one, two] });
      assert.deepEqual(created.tag_ids, [one, two]);
      assert.deepEqual(created.see_ids, []);
      const { id } = created;
      assert.deepEqual(await ok(`GET /notes/${id}`), created);
      assert.deepEqual(await ok(`GET /notes/${id}?fields=tag_ids`), { id, tag_ids: [one, two] });
      assert.deepEqual(await links(id), [one, two]);
      assert.deepEqual((await ok(`PATCH /notes/${id}`, { tag_ids: [two] })).tag_ids, [two]);
      assert.deepEqual(await links(id), [two]);
      assert.deepEqual((await ok(`PATCH /notes/${id}`, { see_ids: [id] })).see_ids, [id]);
    });

    test('PUT keeps an absent list, and an empty list clears it', async () => {
      const one = await tag('one');
      const id = await note({ tag_ids: [one] });
      for (const body of [{}, { tag_ids: null }])
        assert.deepEqual((await ok(`PUT /notes/${id}`, body)).tag_ids, [one]);
      assert.deepEqual((await ok(`PUT /notes/${id}`, { tag_ids: [] })).tag_ids, []);
      assert.deepEqual(await links(id), []);
      await ok(`PATCH /notes/${id}`, { tag_ids: [one] });
      assert.deepEqual((await ok(`PATCH /notes/${id}`, { tag_ids: null })).tag_ids, []);
    });

    test('a change of the list is a new version of the record', async () => {
      const one = await tag('one');
      const id = await note({});
      const etag = (await send(`GET /notes/${id}`)).headers.get('etag') ?? '';
      await ok(`PATCH /notes/${id}`, { tag_ids: [one] }, { 'if-match': etag });
      const stale = await send(`PATCH /notes/${id}`, { tag_ids: [] }, { 'if-match': etag });
      assert.equal(stale.status, 412);
      const { data } = await ok(`GET /notes/${id}/history`);
      const [change] = data as { changed: string[]; before: Json; after: Json }[];
      assert.ok(change?.changed.includes('tag_ids'));
      assert.deepEqual([change?.before.tag_ids, change?.after.tag_ids], [[], [one]]);
    });

    test('other values and missing records are rejected with their position', async () => {
      const one = await tag('one');
      const foreign = (await send('POST /tags', {}, {}, beta.key)).json.id as number;
      for (const tag_ids of ['1', 1, {}, true]) {
        const answer = await send('POST /notes', { tag_ids });
        assert.equal(answer.status, 400);
        assert.equal(answer.json.error, 'tag_ids must be a list of at most 100 record ids (integers)');
      }
      for (const element of ['1', null, 1.5, [one]]) {
        const answer = await send('POST /notes', { tag_ids: [one, element] });
        assert.deepEqual(answer.json.fields, [
          { field: 'tag_ids[1]', message: 'tag_ids[1] must be the id of a record (an integer)' },
        ]);
      }
      const many = await send('POST /notes', { tag_ids: Array.from({ length: 101 }, (_, index) => index) });
      assert.equal(many.status, 400);
      const id = await note({});
      for (const missing of [987654321, foreign, -1]) {
        const message = `tag_ids[1] ${missing} does not exist in tags`;
        const body = { tag_ids: [one, missing] };
        assertMissing(await send('POST /notes', body), 'tag_ids[1]', message);
        assertMissing(await send(`PUT /notes/${id}`, body), 'tag_ids[1]', message);
        assertMissing(await send(`PATCH /notes/${id}`, body), 'tag_ids[1]', message);
        assertMissing(
          await send('POST /notes', body, { 'idempotency-key': `missing${missing}` }),
          'tag_ids[1]',
          message,
        );
      }
      assert.deepEqual(await tagsOf(id), []);
    });

    test('batches write lists, and report the record with a missing reference', async () => {
      const [one, two] = [await tag('one'), await tag('two')];
      const created = await send('POST /notes/batch', {
        on_error: 'continue',
        records: [
          { name: 'batch a', tag_ids: [two, one] },
          { name: 'batch b', tag_ids: [one, 987654321] },
          { name: 'batch c' },
        ],
      });
      const results = created.json.results as { status: number; id: number; fields: unknown }[];
      assert.deepEqual(
        results.map(({ status }) => status),
        [201, 400, 201],
      );
      assert.deepEqual(results[1]?.fields, [
        { field: 'tag_ids[1]', message: 'tag_ids[1] 987654321 does not exist in tags' },
      ]);
      const [first, , third] = results.map(({ id }) => id);
      assert.deepEqual(await tagsOf(Number(first)), [one, two]);
      await ok('PATCH /notes/batch', { records: [{ id: third, tag_ids: [two] }, { id: first }] });
      assert.deepEqual(await links(Number(third)), [two]);
      await ok('POST /notes/batch', {
        match: ['name'],
        records: [{ name: 'batch a' }, { name: 'batch c', tag_ids: [] }, { name: 'batch d', tag_ids: [one] }],
      });
      assert.deepEqual([await tagsOf(Number(first)), await links(Number(third))], [[one, two], []]);
    });

    test('filters match records that contain any, all or none of the values', async () => {
      const [one, two, three] = [await tag('one'), await tag('two'), await tag('three')];
      const both = await note({ tag_ids: [one, two] });
      const single = await note({ tag_ids: [two] });
      const other = await note({ tag_ids: [three] });
      assert.deepEqual(await idsOf(`tag_ids=${two}`), [both, single]);
      assert.deepEqual(await idsOf(`tag_ids=${one}&tag_ids=${three}`), [both, other]);
      assert.deepEqual(await idsOf(`tag_ids[in]=${one}&tag_ids[in]=${three}`), [both, other]);
      assert.deepEqual(await idsOf(`tag_ids[any]=${one}&tag_ids[any]=${three}&sort=id&dir=desc`), [
        other,
        both,
      ]);
      assert.deepEqual(await idsOf(`tag_ids[all]=${one}&tag_ids[all]=${two}`), [both]);
      assert.deepEqual(await idsOf(`tag_ids[all]=${two}&tag_ids[ne]=${one}`), [single]);
      assert.deepEqual(
        (await send('GET /notes?tag_ids=x')).json.error,
        'tag_ids must be the id of a record (an integer)',
      );
    });

    test('expand adds the records in place, and the records that refer to a record', async () => {
      const [one, two] = [await tag('first'), await tag('second')];
      const id = await note({ tag_ids: [two, one] });
      const empty = await note({ see_ids: [id] });
      const { expanded } = await ok(`GET /notes/${id}?expand=tag_ids,pinned_ids`);
      assert.deepEqual(
        expanded.tag_ids?.map((item) => item.id),
        [one, two],
      );
      assert.deepEqual(expanded.pinned_ids, []);
      const list = await ok(`GET /notes?expand=tag_ids,see_ids&tag_ids=${one}`);
      const [item] = list.data as unknown as Json[];
      assert.deepEqual(
        item?.expanded.tag_ids?.map(({ id }) => id),
        [one, two],
      );
      const nested = await ok(`GET /notes/${empty}?expand=see_ids.tag_ids`);
      const [seen] = nested.expanded.see_ids as unknown as Json[];
      assert.deepEqual([seen?.id, seen?.expanded.tag_ids?.map(({ id }) => id)], [id, [one, two]]);
      const back = (await ok(`GET /tags/${one}?expand=notes.tag_ids`)).expanded['notes.tag_ids'];
      const { data, url } = back as unknown as { data: { id: number }[]; url: string };
      assert.deepEqual([data.map(({ id }) => id), url], [[id], `/api/v1/notes?tag_ids=${one}`]);
    });

    test('CSV and NDJSON contain the list, and imports accept it', async () => {
      const [one, two] = [await tag('one'), await tag('two')];
      const id = await note({ name: 'exported', tag_ids: [two, one] });
      const csv = await send(`GET /notes?fields=name,tag_ids,see_ids&tag_ids=${one}`, undefined, {
        accept: 'text/csv',
      });
      assert.equal(
        csv.text.replaceAll('\r', ''),
        `id,name,tag_ids,see_ids\n${id},exported,${one};${two},""\n`,
      );
      const ndjson = await send(`GET /notes?fields=tag_ids&tag_ids=${one}`, undefined, {
        accept: 'application/x-ndjson',
      });
      assert.deepEqual(JSON.parse(ndjson.text), { id, tag_ids: [one, two] });
      const load = (text: string, type: string) =>
        instance().call('POST /api/v1/notes/import?match=name', {
          key: alpha.key,
          headers: { 'content-type': type },
          body: Buffer.from(text),
        });
      const imported = await load(
        `name,tag_ids\nexported,${two}\nimported,"${two}, ${one}"\nbroken,${one};987654321\n`,
        'text/csv',
      );
      assert.match(imported.text, /tag_ids\[1\] 987654321 does not exist in tags/);
      assert.deepEqual(await tagsOf(id), [two]);
      assert.equal((await load(`name,tag_ids\nexported,\n`, 'text/csv')).status, 200);
      assert.deepEqual(await tagsOf(id), [two]);
      assert.equal((await load(`name,tag_ids\nexported,""\n`, 'text/csv')).status, 200);
      assert.deepEqual(await tagsOf(id), []);
      const line = JSON.stringify({ name: 'exported', tag_ids: [one] });
      assert.equal((await load(line, 'application/x-ndjson')).status, 200);
      assert.deepEqual(await links(id), [one]);
    });

    test('deleting a record removes it from lists, with an entry in the change log', async () => {
      const [one, two, three] = [await tag('one'), await tag('two'), await tag('three')];
      const id = await note({ tag_ids: [one, two, three], price_ids: [one] });
      const before = await ok(`GET /notes/${id}`);
      const since = String((await instance().call('GET /events?after=now', { key: alpha.key })).json.next);
      await ok(`DELETE /tags/${one}`);
      const after = await ok(`GET /notes/${id}`);
      assert.deepEqual([after.tag_ids, after.price_ids], [[two, three], []]);
      assert.notEqual(after.updated_at, before.updated_at);
      const changes = await changesTo(id, since, 2, { key: alpha.key });
      const update = changes.at(-1);
      assert.equal(update?.action, 'update');
      assert.deepEqual(
        update?.changed.filter((name) => name.endsWith('_ids')),
        ['tag_ids', 'price_ids'],
      );
      const four = await tag('four');
      const { updated_at: _, ...kept } = await ok(`PATCH /notes/${id}`, {
        tag_ids: [two, three, four],
        price_ids: [three],
      });
      await ok('DELETE /tags/batch', { ids: [two, three] });
      const { updated_at: __, ...rest } = await ok(`GET /notes/${id}`);
      assert.deepEqual(rest, { ...kept, tag_ids: [four], price_ids: [] });
      assert.deepEqual(await links(id), [four]);
      const history = (await ok(`GET /notes/${id}/history`)).data;
      assert.deepEqual(
        history.map(({ version }) => version),
        [4, 3, 2, 1],
        'one change for all deleted tags',
      );
    });

    test('restrict rejects the delete of a listed record', async () => {
      const [one, two] = [await tag('one'), await tag('two')];
      const id = await note({ pinned_ids: [one], tag_ids: [two] });
      const answer = await send(`DELETE /tags/${one}`);
      assert.deepEqual(
        [answer.status, answer.json.referrers],
        [409, [{ resource: 'notes', field: 'pinned_ids', count: 1 }]],
      );
      const batch = await ok('DELETE /tags/batch', { ids: [one, two], on_error: 'continue' });
      assert.deepEqual(
        (batch.results as { status: number }[]).map(({ status }) => status),
        [409, 200],
      );
      await ok(`DELETE /notes/${id}`);
      assert.deepEqual(await links(id), []);
      await ok(`DELETE /tags/${one}`);
    });

    test('records that refer to each other can be deleted together', async () => {
      const first = await note({});
      const second = await note({ see_ids: [first] });
      const third = await note({ see_ids: [first, second] });
      await ok(`PATCH /notes/${first}`, { see_ids: [first, second] });
      await ok('DELETE /notes/batch', { ids: [first, second] });
      assert.deepEqual((await ok(`GET /notes/${third}`)).see_ids, []);
    });

    test('concurrent writes leave the link table equal to the list', async () => {
      const tags = await Promise.all(['a', 'b', 'c', 'd'].map((name) => tag(name)));
      const id = await note({});
      const writes = Array.from({ length: 24 }, (_, index) =>
        ok(`PATCH /notes/${id}`, { tag_ids: [tags[index % 4], tags[(index * 3) % 4]] }),
      );
      await Promise.all(
        [...writes, ok(`DELETE /tags/${tags[3]}`).catch(() => undefined)].map((each) =>
          each.catch(() => undefined),
        ),
      );
      assert.deepEqual(await links(id), await tagsOf(id));
      for (const target of tags) await send(`DELETE /tags/${target}`);
      assert.deepEqual(await tagsOf(id), []);
    });

    test('a caller sees only the references to records in its scope', async () => {
      const [open, secret, other] = [await tag('open'), await tag('hidden', true), await tag('other')];
      const name = 'with hidden tags';
      const id = await note({ name, tag_ids: [open, secret] });
      const hidden = await note({ tag_ids: [secret] });
      // References can also be found without a declared filter.
      const pinned = await note({ pinned_ids: [open, secret] });
      for (const [target, ids] of [
        [open, [pinned]],
        [secret, []],
      ] as const)
        assert.deepEqual(await idsOf(`pinned_ids[in]=${target}`, limited), ids);
      assert.deepEqual(await idsOf(`pinned_ids[in]=${secret}`), [pinned]);
      assert.deepEqual(await tagsOf(id, limited), [open]);
      const { expanded } = await ok(`GET /notes/${id}?expand=tag_ids`, undefined, limited);
      assert.deepEqual(
        expanded.tag_ids?.map((item) => item.id),
        [open],
      );
      for (const operator of ['', '[in]', '[any]', '[all]']) {
        assert.deepEqual(await idsOf(`tag_ids${operator}=${secret}`, limited), [], operator);
        assert.deepEqual(await idsOf(`tag_ids${operator}=${open}`, limited), [id], operator);
      }
      assert.deepEqual(await idsOf(`tag_ids[all]=${open}&tag_ids[all]=${secret}`, limited), []);
      assert.ok((await idsOf(`tag_ids[ne]=${secret}&sort=id&dir=desc`, limited)).includes(hidden));
      const csv = await send(`GET /notes?fields=tag_ids&tag_ids=${open}`, undefined, {
        ...limited,
        accept: 'text/csv',
      });
      assert.equal(csv.text.replaceAll('\r', ''), `id,tag_ids\n${id},${open}\n`);
      // Hidden references are kept.
      const written = await ok(`PUT /notes/${id}`, { name, tag_ids: [other] }, limited);
      assert.deepEqual([written.tag_ids, await tagsOf(id)], [[other], [secret, other]]);
      await ok(`PATCH /notes/${id}`, { tag_ids: [] }, limited);
      assert.deepEqual(await tagsOf(id), [secret]);
      await ok('PATCH /notes/batch', { records: [{ id, tag_ids: [open] }] }, limited);
      assert.deepEqual(await tagsOf(id), [open, secret]);
      await ok('POST /notes/batch', { match: ['name'], records: [{ name, tag_ids: [other] }] }, limited);
      assert.deepEqual(await tagsOf(id), [secret, other]);
      await ok(`PATCH /notes/${id}`, { tag_ids: [open] }, limited);
      // A reference to a hidden record is rejected like one to a missing record, even if it exists.
      for (const target of [id, hidden]) {
        const answer = await send(`PATCH /notes/${target}`, { tag_ids: [secret] }, limited);
        assertMissing(answer, 'tag_ids[0]', `tag_ids[0] ${secret} does not exist in tags`);
      }
    });

    test('expanded references are records that the caller can read, even if it can list more', async () => {
      const { key } = await limitedKey(instance(), alpha, ['notes:*', 'tags:list', 'tags:read:open']);
      const [open, secret] = [await tag('open'), await tag('hidden', true)];
      const id = await note({ tag_ids: [open, secret] });
      for (const path of [`notes/${id}`, 'notes?sort=id&dir=desc']) {
        const { json } = await send(
          `GET /${path}${path.includes('?') ? '&' : '?'}expand=tag_ids`,
          undefined,
          {},
          key,
        );
        const [first] = (json.data ?? [json]) as readonly Json[];
        assert.deepEqual(
          first?.expanded.tag_ids?.map((item) => item.id),
          [open],
          path,
        );
      }
    });

    test('the history and the change feed omit references that the caller cannot see', async () => {
      const [open, secret] = [await tag('open'), await tag('hidden', true)];
      const since = String((await instance().call('GET /events?after=now', { headers: limited })).json.next);
      const id = await note({ name: 'logged', tag_ids: [open, secret] });
      await ok(`PATCH /notes/${id}`, { tag_ids: [open] });
      await ok(`PATCH /notes/${id}`, { tag_ids: [] });
      const { data } = await ok(`GET /notes/${id}/history`, undefined, limited);
      const changes = data as unknown as { action: string; before: Json | null; after: Json }[];
      // The change that removed only the hidden reference is invisible.
      assert.deepEqual(
        changes.map(({ action, before, after }) => [action, before?.tag_ids, after.tag_ids]),
        [
          ['update', [open], []],
          ['create', undefined, [open]],
        ],
      );
      const seen = await changesTo(id, since, 3, { headers: limited });
      assert.deepEqual(
        seen.map(({ version, after }) => [version, after.tag_ids]),
        [
          [1, [open]],
          [3, []],
        ],
      );
    });

    test('the entity tag of a caller changes when it sees other references', async () => {
      const secret = await tag('hidden', true);
      const id = await note({ tag_ids: [secret] });
      const etag = async () => (await send(`GET /notes/${id}`, undefined, limited)).headers.get('etag') ?? '';
      const first = await etag();
      const known = await send(`GET /notes/${id}`, undefined, { ...limited, 'if-none-match': first });
      assert.equal(known.status, 304);
      await ok(`PATCH /tags/${secret}`, { secret: false });
      assert.notEqual(await etag(), first);
      const stale = await send(`PATCH /notes/${id}`, {}, { ...limited, 'if-match': first });
      assert.equal(stale.status, 412);
      assert.equal(
        (await send(`PATCH /notes/${id}`, {}, { ...limited, 'if-match': await etag() })).status,
        200,
      );
    });

    test('a field group hides the list', async () => {
      const one = await tag('one');
      const id = await note({ price_ids: [one] });
      const seen = await ok(`GET /notes/${id}`, undefined, limited);
      assert.ok(!('price_ids' in seen));
      await ok(`PUT /notes/${id}`, { price_ids: [] }, limited);
      assert.deepEqual((await ok(`GET /notes/${id}`)).price_ids, [one]);
    });

    test('values written by SQL are also in the link table, and foreign keys check them', async () => {
      const one = await tag('one');
      const id = await note({});
      await rows(`update notes set tag_ids = '{${one}}' where id = ${id}`);
      assert.deepEqual(await links(id), [one]);
      await assert.rejects(rows(`update notes set tag_ids = '{987654321}' where id = ${id}`), /foreign key/);
    });

    test('forms have a checkbox for each record', async () => {
      const [one, two] = [await tag('first choice'), await tag('second choice')];
      const id = await note({ name: 'in a form', tag_ids: [one] });
      const browser = await signIn(instance(), administratorOf(alpha));
      const path = `/setup/o/alpha/data/notes/${id}`;
      const page = readable((await browser.get(`${path}/edit`)).text);
      assert.match(page, new RegExp(`name="tag_ids" value="${one}" checked`));
      assert.match(page, /second choice/);
      const save = (fields: Readonly<Record<string, string | string[]>>) =>
        browser.submit(`${path}/edit`, `${path}/edit`, fields);
      const saved = await save({ tag_ids: [String(two), String(one)] });
      assert.equal(saved.status, 303, saved.text);
      assert.deepEqual(await tagsOf(id), [one, two]);
      assert.match(readable((await browser.get(path)).text), /first choice, second choice/);
      const missing = await save({ tag_ids: ['987654321'] });
      assert.equal(missing.status, 400);
      assert.match(readable(missing.text), /tag_ids\[0\] 987654321 does not exist in tags/);
      assert.equal((await save({})).status, 303);
      assert.deepEqual(await tagsOf(id), []);
    });

    test('references that the caller cannot see do not count towards the maximum', async () => {
      const tags = async (hidden: boolean, count: number) =>
        Promise.all(Array.from({ length: count }, (_, index) => tag(`many ${index}`, hidden)));
      const [secret, open] = [await tags(true, 2), await tags(false, 100)];
      const id = await note({ tag_ids: secret });
      const written = await ok(`PATCH /notes/${id}`, { tag_ids: open }, limited);
      assert.deepEqual([[written.tag_ids].flat().length, [await tagsOf(id)].flat().length], [100, 102]);
    });

    test('an organization with lists of references can be deleted', async () => {
      const gamma = await instance().organization('gamma');
      const create = async (path: string, body: object) =>
        (await send(`POST /${path}`, body, {}, gamma.key)).json.id as number;
      const one = await create('tags', {});
      const first = await create('notes', { tag_ids: [one] });
      await create('notes', { see_ids: [first], pinned_ids: [one] });
      assert.ok((await deleteOrganization(instance().database, gamma.id)) > 3);
      const hashes = await rowHashes(instance(), gamma.id);
      assert.deepEqual(new Set(Object.values(hashes)), new Set(['0 ']));
    });
  },
  { sources: await sourcesWith(...sources) },
);
