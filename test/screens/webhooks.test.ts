// The pages for webhooks: subscriptions with their states, deliveries with their attempts, requests and responses, and who sees
// the bodies.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { sql } from 'kysely';
import { tablesOf } from '../../engine/tables/handle.ts';
import { administratorOf, formsOf, optionOf, readable, signIn, type Visitor } from '../support/forms.ts';
import { type Organization, onBothDrivers } from '../support/instance.ts';
import { jobs, limitedKey, limitedPerson, setGrants } from '../support/limited.ts';
import { settingsFile } from '../support/partners.ts';
import { fresh } from '../support/people.ts';
import { until } from '../support/process.ts';
import { type Behaviour, eventsTo, settledFeed, startReceiver } from '../support/receiver.ts';
import { sourcesWith } from '../support/sources.ts';

const receiver = await startReceiver();
after(() => receiver.close());
const file = settingsFile(eventsTo(receiver.port));
const german = { 'accept-language': 'de' };

onBothDrivers(
  'the pages for webhooks',
  (instance) => {
    let acme: Organization;
    let admin: Visitor;
    let key: string;
    before(async () => {
      acme = await instance().organization('acme');
      admin = await signIn(instance(), administratorOf(acme));
      key = await keyOf(acme);
    });
    const keyOf = (organization: Organization) =>
      organization.keyWith([
        { object: 'events', actions: ['*'] },
        { object: '*', actions: ['*'] },
      ]);
    const events = '/setup/o/acme/events';
    const create = async (resource: string, body: object, as = key) => {
      const answer = await instance().call(`POST /api/v1/${resource}`, { key: as, body });
      assert.equal(answer.status, 201, answer.text);
      return Number(answer.json.id);
    };
    const subscribe = async (behaviour: Behaviour, body: object = {}, as = key) => {
      const url = `${receiver.url}/${fresh('hook')}`;
      const path = new URL(url).pathname;
      receiver.behave(path, behaviour);
      const input = { url, resources: ['jobs'], ...body };
      await settledFeed(instance());
      const answer = await instance().call('POST /events/subscriptions', { key: as, body: input });
      assert.equal(answer.status, 201, answer.text);
      const id = Number(answer.json.id);
      const deliveries = async () =>
        (await instance().call(`GET /events/subscriptions/${id}/deliveries`, { key: as })).json
          .data as readonly { readonly id: number; readonly status: string; readonly error: string }[];
      /** Waits until all of the deliveries were attempted, and returns the newest one. */
      const attempted = async (count = 1) => {
        await until(async () => {
          const rows = await deliveries();
          return rows.length >= count && rows.every(({ status, error }) => status === 'done' || error !== '');
        }, `${count} deliveries`);
        return (await deliveries())[0]?.id ?? assert.fail();
      };
      return { url, path, id, deliveries, attempted, page: `${events}/subscription?id=${id}` };
    };
    const rowsIn = (text: string) => [...text.matchAll(/<th scope="row"[^>]*><a href="([^"]*)"/g)];
    const text = async (path: string, visitor = admin) => {
      const answer = await visitor.get(path);
      assert.equal(answer.status, 200, path);
      return readable(answer.text);
    };

    test('one section lists the subscriptions with their states, and their deliveries', async () => {
      const good = await subscribe(204);
      const bad = await subscribe(503);
      await create('jobs', { name: 'n1' });
      await good.attempted();
      await bad.attempted();
      const list = await text(events);
      assert.match(list, /Subscriptions \(\d+\).*Deliveries \(\d+\)/s);
      assert.match(list, /Enabled<\/span><span class="below"[^>]*>Delivered \d{4}-/);
      assert.match(
        list,
        /Failing<\/span><span class="below"[^>]*>Since [^<]* · The receiver responded with 503/,
      );
      assert.ok(list.includes(`href="${bad.page}"`));
      const failing = await text(bad.page);
      assert.match(failing, /Since [^<]* · The receiver responded with 503/);
      assert.match(failing, /Send test event/);
      await sql`update crm_event_subscriptions set paused_until = now() + interval '1 hour'
        where id = ${bad.id}::bigint`.execute(tablesOf(instance().database));
      assert.match(await text(bad.page), /503 · Paused until \d{4}-/);
      assert.match(
        readable((await admin.get(bad.page, german)).text),
        /Seit [^<]* · Der Empfänger hat mit 503 geantwortet · Pausiert bis/,
      );
      const navigation = /<nav[\s\S]*?<\/nav>/.exec(list)?.[0] ?? '';
      assert.equal(navigation.match(/href="\/setup\/o\/acme\/event/g)?.length, 1, 'one entry');
    });

    test('the list finds subscriptions by URL, profile and resource, and shows their newest results', async () => {
      const delta = await instance().organization('delta');
      const viewer = await signIn(instance(), administratorOf(delta));
      const { key: other, profile } = await limitedKey(instance(), delta, ['events:*', 'leads:*']);
      const [job, lead] = [
        await subscribe(503, {}, await keyOf(delta)),
        await subscribe(204, { resources: ['leads'] }, other),
      ];
      const found = async (q: string) =>
        rowsIn(await text(`/setup/o/delta/events?q=${encodeURIComponent(q)}`, viewer)).map(([, href]) =>
          Number(/id=(\d+)/.exec(href ?? '')?.[1]),
        );
      for (const [q, expected] of [
        [job.path, [job.id]],
        [profile, [lead.id]],
        ['jobs', [job.id]],
        [receiver.url, [job.id, lead.id]],
        ['contacts', []],
      ] as const)
        assert.deepEqual(await found(q), expected, q);
      const insert = (id: number, rows: readonly (readonly [string, string, string])[]) =>
        sql`insert into crm_event_deliveries (organization_id, subscription_id, event_id, object, action, status, error, done_at)
          select ${delta.id}::bigint, ${id}::bigint, done_at, '', 'test', status, error, done_at::timestamptz
          from json_to_recordset(${JSON.stringify(rows.map(([status, error, done_at]) => ({ status, error, done_at })))}::text::json)
            r(status text, error text, done_at text)`.execute(tablesOf(instance().database));
      await insert(lead.id, [
        ['done', '', '2026-01-03T00:00:00Z'],
        ['done', '', '2026-01-02T00:00:00Z'],
        ['dead', 'an error', '2026-01-04T00:00:00Z'],
      ]);
      await sql`update crm_event_subscriptions set failing_since = now() where id = ${job.id}::bigint`.execute(
        tablesOf(instance().database),
      );
      await insert(job.id, [
        ['dead', 'an old error', '2026-01-02T00:00:00Z'],
        ['dead', 'a new error', '2026-01-03T00:00:00Z'],
        ['done', '', '2026-01-04T00:00:00Z'],
      ]);
      const list = await text('/setup/o/delta/events', viewer);
      assert.match(list, /Enabled<\/span><span class="below"[^>]*>Delivered 2026-01-02/);
      assert.match(list, /Failing<\/span><span class="below"[^>]*>Since [^<]* · a new error</);
    });

    test('a disabled subscription can be enabled, but not tested', async () => {
      const hook = await subscribe(204);
      const actionsIn = async () =>
        formsOf(await admin.get(hook.page)).flatMap(({ action, values }) =>
          action.startsWith(`${events}/`)
            ? [`${action.slice(events.length + 1)} ${values.to ?? ''}`.trim()]
            : [],
        );
      assert.deepEqual((await actionsIn()).toSorted(), ['switch off', 'test']);
      const body = { state: 'off' };
      await instance().call(`PATCH /events/subscriptions/${hook.id}`, { key, body });
      assert.deepEqual(await actionsIn(), ['switch on']);
    });

    test('the form keeps the choices after an error, and accepts batches', async () => {
      const form = `${events}/add`;
      const choices = async (answer: Promise<{ readonly text: string }>) =>
        [...(await answer).text.matchAll(/<input type="checkbox" name="\w+" value="(\w+)" checked>/g)].map(
          ([, value]) => value,
        );
      assert.deepEqual(await choices(admin.get(form)), ['create', 'update', 'delete']);
      const wrong = { url: 'nowhere', resource: ['jobs'], action: ['update'] };
      assert.deepEqual(await choices(admin.submit(form, form, wrong)), ['jobs', 'update']);
      assert.deepEqual(await choices(admin.submit(form, form, { url: 'nowhere' })), []);
      const url = `${receiver.url}/${fresh('hook')}`;
      const profile = await optionOf(admin, '/setup/o/acme/keys/create', 'administrator');
      const fields = {
        ...{ url, resource: ['leads', 'jobs'], action: ['delete', 'create'], filter: 'status=New', profile },
        ...{ batch_events: '7', batch_wait: '9' },
      };
      assert.equal((await admin.submit(form, form, fields)).status, 200);
      const { json } = await instance().call('GET /events/subscriptions', { key });
      const made = (json.data as readonly { url: string; batch: unknown }[]).find((each) => each.url === url);
      assert.deepEqual(made?.batch, { max_events: 7, max_wait_seconds: 9 });
      assert.match(
        await text(events),
        /Jobs, Leads: Created, Deleted<span class="below">where status=New; batches of up to 7</,
      );
    });

    test("a subscription's page lists its own deliveries, with the same filters and pages", async () => {
      const hook = await subscribe(204);
      const other = await subscribe(503);
      await create('jobs', { name: 'n1' });
      const newest = await hook.attempted();
      await other.attempted();
      assert.deepEqual(
        rowsIn(await text(hook.page)).map(([, href]) => href),
        [`${events}/item?id=${newest}&from=owner`],
      );
      assert.equal(rowsIn(await text(`${hook.page}&status=done`)).length, 1);
      assert.equal(rowsIn(await text(`${hook.page}&status=retrying`)).length, 0);
      const none = await text(`${hook.page}&status=dead`);
      assert.equal(rowsIn(none).length, 0);
      assert.ok(
        none.includes(`<a class="button" href="${hook.page}">`),
        'leads back to all of its deliveries',
      );
      assert.equal(rowsIn(await text(`${other.page}&status=retrying`)).length, 1);
      await sql`insert into crm_event_deliveries (organization_id, subscription_id, event_id, object, action, status, done_at)
        select ${acme.id}::bigint, ${hook.id}::bigint, 'many ' || n, '', 'test', 'dead', now() from generate_series(1, 60) n`.execute(
        tablesOf(instance().database),
      );
      const first = await text(`${hook.page}&status=dead`);
      assert.equal(rowsIn(first).length, 50);
      const [, next = ''] = /rel="next" href="([^"]*)"/.exec(first) ?? [];
      const second = await text(next);
      assert.equal(rowsIn(second).length, 10);
      assert.ok(second.includes(`href="${hook.page}&status=dead">First page<`));
      const [chips = ''] = /<ul class="chips"[\s\S]*?<\/ul>/.exec(second) ?? [];
      assert.ok(chips.includes('status=done') && !chips.includes('before='), 'other views start at the top');
      // All failed deliveries of this subscription are sent again, and the user returns to its page.
      const replayOn = async (page: string) =>
        formsOf(await admin.get(page)).find(({ action }) => action === `${events}/replay-all`);
      assert.equal(await replayOn(hook.page), undefined, 'not all of the listed deliveries have failed');
      const replay = await replayOn(`${hook.page}&status=dead`);
      const unknown = await admin.post(`${events}/replay-all`, { ...replay?.values, owner: 'x' });
      assert.equal(unknown.status, 400);
      const answer = await admin.post(`${events}/replay-all`, replay?.values ?? assert.fail());
      assert.match(
        answer.headers.get('location') ?? '',
        new RegExp(`^${events}/subscription\\?id=${hook.id}&`),
      );
      assert.match(
        await text(answer.headers.get('location') ?? ''),
        /60 failed deliveries<\/strong> queued again/,
      );
      assert.equal((await other.deliveries()).length, 1);
    });

    test('a delivery shows attempts, request and response, and a retry leads back to it', async () => {
      const hook = await subscribe((response) =>
        response.writeHead(500, { 'x-trace': 'abc' }).end('{"error":"<b>full</b>"}'),
      );
      const id = await create('jobs', { name: 'A job', margin: 471_147_711 });
      const delivery = await hook.attempted();
      const path = `${events}/item?id=${delivery}`;
      const page = await admin.get(path);
      const shown = readable(page.text);
      assert.match(shown, /The receiver responded with 500/);
      assert.match(shown, /after \d+\sms|after [\d.]+\ssec/);
      assert.match(shown, /Next attempt/);
      assert.ok(shown.includes(`POST ${hook.url}\n`));
      assert.match(shown, /webhook-signature: …/);
      const [sent] = receiver.at(hook.path);
      const signature = String(sent?.headers['webhook-signature']);
      assert.ok(signature.length > 20 && !page.text.includes(signature.slice(3, 20)));
      assert.ok(shown.includes(sent?.text ?? '-'));
      assert.match(shown, /HTTP 500\n[\s\S]*x-trace: abc/);
      assert.ok(page.text.includes('{&quot;error&quot;:&quot;&lt;b&gt;full&lt;/b&gt;&quot;}'), 'escaped');
      assert.match(readable((await admin.get(path, german)).text), /Der Empfänger hat mit 500 geantwortet/);
      receiver.behave(hook.path, (response) => response.writeHead(200).end(Buffer.from([0xff, 0xfe, 0])));
      const [retry] = formsOf(page).filter(({ action }) => action === `${events}/replay`);
      const answer = await admin.post(`${events}/replay`, retry?.values ?? assert.fail(page.text));
      assert.match(answer.headers.get('location') ?? '', new RegExp(`^${events}/item\\?id=${delivery}&`));
      assert.match(await text(answer.headers.get('location') ?? ''), /queued again/);
      await until(async () => (await hook.deliveries())[0]?.status === 'done', 'the retry');
      const done = await text(path);
      assert.match(done, /Delivered: the receiver responded with 200[\s\S]*The receiver responded with 500/);
      assert.match(done, /3 bytes, not shown because it is not text/);
      assert.doesNotMatch(done, /Next attempt/);
      assert.ok(id > 0);
    });

    test('a waiting delivery shows its next attempt, and can be sent immediately only after an attempt', async () => {
      const hook = await subscribe(204);
      const set = (table: string, values: string) =>
        sql`update ${sql.table(table)} set ${sql.raw(values)}
          where ${sql.ref(table === 'crm_event_subscriptions' ? 'id' : 'subscription_id')} = ${hook.id}::bigint`.execute(
          tablesOf(instance().database),
        );
      await set('crm_event_subscriptions', "paused_until = '2999-01-01T00:00:00Z'");
      await create('jobs', { name: 'n1' });
      await until(async () => (await hook.deliveries()).length === 1, 'the delivery');
      const [delivery] = await hook.deliveries();
      const shown = async () => {
        const page = await text(`${events}/item?id=${delivery?.id}`);
        const [, next] = /Next attempt<\/dt><dd>.*?datetime="([^"]*)"/s.exec(page) ?? [];
        const [, button] = /aria-label="(Replay|Retry now) Job/.exec(page) ?? [];
        return [next, button];
      };
      // It is sent after the pause.
      assert.deepEqual(await shown(), ['2999-01-01T00:00:00.000Z', undefined]);
      await set('crm_event_deliveries', "attempts = 1, next_at = '3000-01-01T00:00:00Z'");
      assert.deepEqual(await shown(), ['3000-01-01T00:00:00.000Z', 'Retry now']);
      assert.match(await text(hook.page), /Paused until 2999-/);
      await set('crm_event_subscriptions', "state = 'off'");
      assert.deepEqual(await shown(), [undefined, 'Retry now']);
      assert.doesNotMatch(await text(hook.page), /Paused until/);
      await set('crm_event_deliveries', "status = 'done', done_at = now()");
      assert.deepEqual(await shown(), [undefined, 'Replay']);
    });

    test('a delivery leads back to the page from which it was opened', async () => {
      const [hook, other] = [await subscribe(503), await subscribe(204)];
      await create('jobs', { name: 'n1' });
      const delivery = await hook.attempted();
      const item = `${events}/item?id=${delivery}`;
      const above = (page: string) => {
        const [, href, label] =
          /<p class="above"><a href="([^"]*)">[\s\S]*?<span class="ellipsis">([^<]*)</.exec(page) ?? [];
        return [href, label];
      };
      const opened = async (list: string) => {
        const link = rowsIn(await text(list)).find(([, href]) => href?.includes(`id=${delivery}&`));
        return above(await text(link?.[1] ?? assert.fail(list)));
      };
      assert.deepEqual(await opened(hook.page), [hook.page, hook.url]);
      assert.deepEqual(await opened(`${hook.page}&status=retrying`), [
        `${hook.page}&status=retrying`,
        hook.url,
      ]);
      const all = `${events}?show=event-deliveries&owner=${hook.id}`;
      assert.deepEqual(await opened(all), [all, 'Webhooks']);
      assert.deepEqual(above(await text(item)), [events, 'Webhooks']);
      // It still does after another attempt.
      const page = await admin.get(`${item}&from=owner`);
      const [retry] = formsOf(page).filter(({ action }) => action === `${events}/replay`);
      const answer = await admin.post(`${events}/replay`, retry?.values ?? assert.fail(page.text));
      const location = answer.headers.get('location') ?? '';
      assert.deepEqual(above(await text(location)), [hook.page, hook.url]);
      for (const [query, expected] of [
        [`from=owner&at=${encodeURIComponent(`id=${other.id}`)}`, [hook.page, hook.url]],
        [`from=owner&at=${encodeURIComponent('status=dead#"><script>')}`, [hook.page, hook.url]],
        ['from=owner&at=//evil.example', [`${hook.page}`, hook.url]],
        ['from=https://evil.example', [events, 'Webhooks']],
        ['from=__proto__', [events, 'Webhooks']],
        ['from=constructor&from=owner', [events, 'Webhooks']],
      ] as const)
        assert.deepEqual(above(await text(`${item}&${query}`)), expected, query);
    });

    test('titles of events are in the language of the page, also in messages; the API and commands keep theirs', async () => {
      const hook = await subscribe(204);
      const id = await create('jobs', { name: 'n1' });
      const change = { key, body: { name: 'n2' } };
      assert.equal((await instance().call(`PATCH /api/v1/jobs/${id}`, change)).status, 200);
      await hook.attempted(2);
      assert.equal(
        (await instance().call(`POST /events/subscriptions/${hook.id}/test`, { key })).status,
        200,
      );
      const delivery = await hook.attempted(3);
      const shown = async (headers = {}) =>
        [
          ...readable((await admin.get(hook.page, headers)).text).matchAll(
            /<th scope="row"[^>]*><a[^>]*>([^<]*)</g,
          ),
        ].map(([, title]) => title);
      assert.deepEqual(await shown(), [
        'Test event',
        `Job ${id} updated (version 2)`,
        `Job ${id} created (version 1)`,
      ]);
      assert.deepEqual(await shown(german), [
        'Testereignis',
        `Job ${id} geändert (Version 2)`,
        `Job ${id} angelegt (Version 1)`,
      ]);
      const page = await admin.get(`${events}/item?id=${delivery}`, german);
      assert.match(page.text, /<h1[^>]*>Testereignis</);
      const [replay] = formsOf(page).filter(({ action }) => action === `${events}/replay`);
      const answer = await admin.post(`${events}/replay`, replay?.values ?? assert.fail(page.text), german);
      const message = readable((await admin.get(answer.headers.get('location') ?? '', german)).text);
      assert.match(message, /Testereignis<\/strong> erneut eingereiht/);
      const { json } = await instance().call(`GET /events/subscriptions/${hook.id}/deliveries`, { key });
      assert.deepEqual(
        (json.data as { event: string }[]).map(({ event }) => event),
        ['test', `update jobs ${id} v2`, `create jobs ${id} v1`],
      );
    });

    test('a long body is truncated, and says so', async () => {
      const hook = await subscribe(204);
      await create('jobs', { name: 'x'.repeat(20_000) });
      const shown = await text(`${events}/item?id=${await hook.attempted()}`);
      assert.match(shown, /Request body \(first 8 KiB of [\d.]+ KiB\)/);
      assert.match(shown, /Response body<\/dt><dd>Empty/);
      for (const [bytes, label] of [
        [8192, 'Response body'],
        [8193, 'Response body (first 8 KiB of 8 KiB)'],
        [65_536, 'Response body (first 8 KiB of 64 KiB)'],
        [100_000, 'Response body (first 8 KiB of more than 64 KiB)'],
      ] as const) {
        const large = await subscribe((response) => response.writeHead(200).end('y'.repeat(bytes)));
        await create('jobs', { name: 'n1' });
        const page = await text(`${events}/item?id=${await large.attempted()}`);
        assert.equal(/Response body[^<]*/.exec(page)?.[0], label);
      }
    });

    test('a later attempt without a request does not hide the last request, and each attempt has its duration', async () => {
      const hook = await subscribe(503);
      await create('jobs', { name: 'A job' });
      const delivery = await hook.attempted();
      const attempts = [999, 1000, 1500].map((ms) =>
        JSON.stringify({
          ...{ at: '2026-03-01T09:30:00Z', ms, result: 'failed' },
          reason: { code: 'internal', values: { name: 'RangeError' } },
        }),
      );
      await sql`update crm_event_deliveries set attempt_log = ${attempts.join('\n')} || E'\\n' || attempt_log,
        status = 'dead', done_at = now() where id = ${delivery}::bigint`.execute(
        tablesOf(instance().database),
      );
      const page = await text(`${events}/item?id=${delivery}`);
      assert.match(page, /Request body<[\s\S]*A job[\s\S]*Response body<\/dt><dd>Empty/);
      assert.match(page, /An internal error occurred \(RangeError\)/);
      assert.match(page, /after 999\sms[\s\S]*after 1\ssec[\s\S]*after 1\.5\ssec/);
    });

    test('bodies of events about a resource that no longer exists are hidden', async () => {
      const hook = await subscribe(204);
      await create('jobs', { name: 'A job' });
      const delivery = await hook.attempted();
      await sql`update crm_event_deliveries set object = 'ghosts' where id = ${delivery}::bigint`.execute(
        tablesOf(instance().database),
      );
      const page = await text(`${events}/item?id=${delivery}`);
      assert.match(page, /hidden, because you cannot read all records and fields of ghosts/);
      assert.doesNotMatch(page, /A job/);
    });

    test('why an event was not sent', async () => {
      const hook = await subscribe(204, { filter: 'status=Other' });
      await create('jobs', { name: 'n1' });
      const delivery = await hook.attempted();
      assert.match(
        await text(`${events}/item?id=${delivery}`),
        /Not sent: The record does not match the filter/,
      );
      const page = readable((await admin.get(`${events}/item?id=${delivery}`, german)).text);
      assert.match(page, /Nicht gesendet: Der Datensatz passt nicht zum Filter/);
      assert.match(await text(hook.page), /Not sent, 1 attempt/);
      // Queued again, before its next attempt.
      await sql`update crm_event_subscriptions set paused_until = '2999-01-01' where id = ${hook.id}::bigint`.execute(
        tablesOf(instance().database),
      );
      await instance().call(`POST /events/subscriptions/${hook.id}/replay`, {
        key,
        body: { from: delivery },
      });
      assert.doesNotMatch(await text(hook.page), /Not sent/);
    });

    test('a delivery that an earlier version stored shows its English sentence', async () => {
      const hook = await subscribe(204);
      await create('jobs', { name: 'n1' });
      const delivery = await hook.attempted();
      await sql`update crm_event_deliveries set status = 'dead', error = 'a reason of an earlier version', attempt_log = '',
        url = '', request_body = '', response_body = '' where id = ${delivery}::bigint`.execute(
        tablesOf(instance().database),
      );
      const page = readable((await admin.get(`${events}/item?id=${delivery}`, german)).text);
      assert.match(page, /a reason of an earlier version/);
      assert.match(page, /Es sind keine Versuche gespeichert/);
      assert.match(page, /POST\nuser-agent/);
    });

    test('the former URLs lead to the new pages', async () => {
      const hook = await subscribe(204);
      await create('jobs', { name: 'n1' });
      const delivery = await hook.attempted();
      const former = '/setup/o/acme/event-deliveries';
      for (const [path, target] of [
        [former, `${events}?show=event-deliveries`],
        [`${former}?status=dead`, `${events}?show=event-deliveries&status=dead`],
        [`${former}?owner=${hook.id}`, `${events}?show=event-deliveries&owner=${hook.id}`],
        [`${former}/item?id=${delivery}`, `${events}/item?id=${delivery}`],
      ] as const) {
        const answer = await admin.get(path);
        assert.equal(answer.status, 308, path);
        assert.equal(answer.headers.get('location'), target);
        await text(target);
      }
      const long = await admin.get(`${former}?q=${'x'.repeat(4000)}`);
      assert.equal(long.headers.get('location'), `${events}?show=event-deliveries`);
    });

    test('members without the administrator profile see none of the pages', async () => {
      const hook = await subscribe(204);
      await create('jobs', { name: 'n1' });
      const delivery = await hook.attempted();
      const visitor = await signIn(
        instance(),
        await limitedPerson(instance(), acme, ['*:*', 'events:*', 'jobs.finance:read']),
      );
      for (const path of [
        events,
        `${events}?show=event-deliveries`,
        hook.page,
        `${events}/item?id=${delivery}`,
      ])
        assert.equal((await visitor.get(path)).status, 403, path);
    });

    test('bodies are hidden from a viewer who cannot read all records and fields of the resource', async () => {
      const beta = await instance().organization('beta');
      const [as, viewer] = [await keyOf(beta), await signIn(instance(), administratorOf(beta))];
      const reply: Behaviour = (response, { text: sent }) => response.writeHead(500).end(`echo ${sent}`);
      const single = await subscribe(reply, {}, as);
      const batch = await subscribe(
        reply,
        { resources: ['jobs', 'leads'], batch: { max_events: 2, max_wait_seconds: 300 } },
        as,
      );
      const sentLead = await subscribe(reply, { resources: ['leads'] }, as);
      const tested = await subscribe(reply, { resources: ['contacts'] }, as);
      await instance().call(`POST /events/subscriptions/${tested.id}/test`, { key: as });
      await create('jobs', { name: 'A job', margin: 471_147_711 }, as);
      await create('leads', { last_name: 'Ames' }, as);
      const pages = {
        job: `/setup/o/beta/events/item?id=${await single.attempted()}`,
        batch: `/setup/o/beta/events/item?id=${await batch.attempted()}`,
        lead: `/setup/o/beta/events/item?id=${await sentLead.attempted()}`,
        test: `/setup/o/beta/events/item?id=${await tested.attempted()}`,
      };
      const hidden =
        /The request body and the response body are hidden, because you cannot read all records and fields of/;
      const visibility = async () => {
        const entries = Object.entries(pages).map(async ([name, path]) => {
          const page = await text(path, viewer);
          const isHidden = hidden.test(page);
          assert.equal(/Request body|Response body|echo|471147711|A job|Ames/.test(page), !isHidden, name);
          assert.match(page, /webhook-id/);
          return [name, !isHidden] as const;
        });
        return Object.fromEntries(await Promise.all(entries));
      };
      for (const [grants, visible] of [
        [['*:*', 'events:*', 'members:*'], { job: true, batch: true, lead: true, test: true }],
        [
          ['*:list', 'jobs:read:open', 'jobs.finance:read', 'leads:read'],
          { job: false, batch: false, lead: true, test: true },
        ],
        [['jobs:read', 'leads:read'], { job: false, batch: false, lead: true, test: true }],
        [['jobs:read', 'jobs.finance:read'], { job: true, batch: false, lead: false, test: true }],
        [['*:list'], { job: false, batch: false, lead: false, test: true }],
      ] as const) {
        await setGrants(instance(), beta, 'administrator', grants);
        await until(
          async () => JSON.stringify(await visibility()) === JSON.stringify(visible),
          grants.join(),
        );
      }
    });
  },
  { environment: file.environment, sources: await sourcesWith(jobs) },
);
