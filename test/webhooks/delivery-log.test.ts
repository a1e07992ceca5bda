// The log of a delivery: its attempts with their reasons, and the last request and response. The API does not contain them.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { sql } from 'kysely';
import { tablesOf } from '../../engine/tables/handle.ts';
import {
  attemptLine,
  attemptsIn,
  maxAttempts,
  reasonFor,
  withAttempt,
} from '../../webhooks/queue/attempts.ts';
import { createSettler } from '../../webhooks/queue/claim.ts';
import { reasonSentence, translatedReason } from '../../webhooks/queue/reasons.ts';
import { deliveryQueue } from '../../webhooks/subscriptions/deliveries.ts';
import { deliveryReasons } from '../../webhooks/subscriptions/reasons.ts';
import { deliveryTitleIn, eventTitleIn } from '../../webhooks/subscriptions/titles.ts';
import { runCommand } from '../support/command-line.ts';
import { type Organization, onBothDrivers } from '../support/instance.ts';
import { settingsFile } from '../support/partners.ts';
import { fresh } from '../support/people.ts';
import { until } from '../support/process.ts';
import { type Behaviour, eventsTo, settledFeed, startReceiver, whilePaused } from '../support/receiver.ts';

const receiver = await startReceiver();
after(() => receiver.close());
const file = settingsFile(eventsTo(receiver.port));

/** Columns of a delivery. */
interface Logged {
  readonly id: string;
  readonly action: string;
  readonly status: string;
  readonly attempts: number;
  readonly error: string;
  readonly attempt_log: string;
  readonly url: string;
  readonly request: string;
  readonly request_body: string;
  readonly response_body: string;
}

onBothDrivers(
  'the log of a delivery',
  (instance) => {
    let acme: Organization;
    let key: string;
    before(async () => {
      acme = await instance().organization('acme');
      key = await acme.keyWith([
        { object: 'events', actions: ['*'] },
        { object: '*', actions: ['*'] },
      ]);
    });
    const write = async (request: string, body?: object) => {
      const answer = await instance().call(request.replace(' ', ' /api/v1/'), { key, ...(body && { body }) });
      assert.ok(answer.status < 300, answer.text);
      return Number(answer.json.id);
    };
    const subscribe = async (behaviour: Behaviour, body: object = {}) => {
      const url = `${receiver.url}/${fresh('hook')}`;
      receiver.behave(new URL(url).pathname, behaviour);
      const input = { url, resources: ['leads'], ...body };
      await settledFeed(instance());
      const answer = await instance().call('POST /events/subscriptions', { key, body: input });
      assert.equal(answer.status, 201, answer.text);
      return { url, id: Number(answer.json.id), received: () => receiver.at(new URL(url).pathname) };
    };
    const rows = async (id: number) =>
      (
        await sql<Logged>`select id, action, status, attempts, error, attempt_log, url, request, request_body, response_body
          from crm_event_deliveries where subscription_id = ${id}::bigint order by id`.execute(
          tablesOf(instance().database),
        )
      ).rows;
    /** Waits for a subscription's delivery that meets a condition. */
    const delivery = async (id: number, isFound: (row: Logged) => boolean) => {
      let found: Logged | undefined;
      await until(async () => {
        found = (await rows(id)).find(isFound);
        return found !== undefined;
      }, 'the delivery');
      return found ?? assert.fail();
    };
    const failure = (id: number, text = '') =>
      delivery(id, ({ error, request_body }) => error !== '' && request_body.includes(text));
    const settled = (id: number, status: string) => delivery(id, (row) => row.status === status);

    test('contains each attempt, the URL, and both bodies', async () => {
      const begun = performance.now();
      // There is no attempt before the replay.
      const hook = await subscribe((response) =>
        response.writeHead(500, { 'retry-after': '3600' }).end('Störung {"code":7}'),
      );
      await write('POST leads', { last_name: 'Ämes' });
      const failed = await failure(hook.id);
      const [sent] = hook.received();
      assert.equal(failed.error, 'the receiver responded with 500');
      assert.equal(failed.url, hook.url);
      assert.equal(failed.request_body, sent?.text);
      assert.match(failed.request_body, /"last_name":"Ämes"/);
      assert.equal(failed.response_body, 'Störung {"code":7}');
      assert.match(failed.request, /\nwebhook-signature: …/);
      receiver.behave(new URL(hook.url).pathname, 204);
      const replay = await instance().call(`POST /events/subscriptions/${hook.id}/replay`, {
        key,
        body: { from: Number(failed.id) },
      });
      assert.deepEqual(replay.json, { queued: 1 });
      const done = await settled(hook.id, 'done');
      const attempts = attemptsIn(done.attempt_log);
      assert.deepEqual(
        attempts.map(({ result, reason, request }) => [result, reason, request]),
        [
          ['done', undefined, { sent: Buffer.byteLength(sent?.text ?? ''), status: 204, received: 0 }],
          [
            'failed',
            { code: 'status', values: { status: '500' } },
            { sent: Buffer.byteLength(sent?.text ?? ''), status: 500, received: 19 },
          ],
        ],
      );
      const elapsed = Math.ceil(performance.now() - begun);
      for (const { at, ms } of attempts)
        assert.ok(Date.parse(at) > 0 && Number.isInteger(ms) && ms >= 0 && ms <= elapsed, `${at}: ${ms} ms`);
      assert.deepEqual([done.error, done.response_body], ['', '']);
      const answer = await instance().call(`GET /events/subscriptions/${hook.id}/deliveries`, { key });
      const [listed = {}] = answer.json.data as object[];
      assert.deepEqual(
        Object.keys(listed),
        ['id', 'event', 'status', 'attempts', 'error', 'queued_at', 'request', 'response'],
        'the API is unchanged',
      );
      const shown = await runCommand(instance(), ['delivery', 'show', failed.id, '--org', 'acme']);
      assert.doesNotMatch(shown.text, /Ämes|attempt_log/);
    });

    test('contains why an event was not sent, and no earlier body', async () => {
      const hook = await subscribe(503, { filter: 'status=New' });
      const id = await write('POST leads', { last_name: 'Ames', status: 'New' });
      const first = await failure(hook.id, 'Ames');
      await write(`PATCH leads/${id}`, { status: 'Contacted' });
      await runCommand(instance(), ['delivery', 'replay', first.id, '--org', 'acme']);
      const skipped = await delivery(hook.id, (row) => row.id === first.id && row.status === 'done');
      assert.equal(skipped.request, 'Not sent: the record does not match the filter.');
      assert.deepEqual([skipped.url, skipped.request_body, skipped.response_body], ['', '', '']);
      const [latest] = attemptsIn(skipped.attempt_log);
      assert.deepEqual([latest?.result, latest?.reason], ['skipped', { code: 'noMatch' }]);
    });

    test('outcomes that are recorded together change only their own columns', async () => {
      const hook = await subscribe(204);
      await sql`update crm_event_subscriptions set paused_until = 'infinity' where id = ${hook.id}::bigint`.execute(
        tablesOf(instance().database),
      );
      for (const last_name of ['one', 'two']) await write('POST leads', { last_name });
      await until(async () => (await rows(hook.id)).length === 2, 'both events');
      await sql`update crm_event_deliveries set attempts = 1, request = 'earlier', request_body = 'earlier'
        where subscription_id = ${hook.id}::bigint`.execute(tablesOf(instance().database));
      const claims = (await rows(hook.id)).map(({ id }) => ({
        ...{ id, organization: acme.id, owner: String(hook.id), attempts: 1 },
        ...{ eventId: '', ageMs: 0, row: {} },
      }));
      const settle = createSettler(() => tablesOf(instance().database), deliveryQueue);
      const time = { at: '2026-01-01T00:00:00Z', ms: 1 };
      const [first, second] = [claims[0] ?? assert.fail(), claims[1] ?? assert.fail()];
      await Promise.all([
        settle(first, { values: { request: 'later' } }, time),
        settle(second, { failure: { code: 'internal' } }, time),
      ]);
      assert.deepEqual(
        (await rows(hook.id)).map(({ status, request, request_body }) => [status, request, request_body]),
        [
          ['done', 'later', 'earlier'],
          ['dead', 'earlier', 'earlier'],
        ],
      );
    });

    test('outcomes are recorded again after a failure of the database', async () => {
      const hook = await subscribe(204);
      await sql`update crm_event_subscriptions set paused_until = 'infinity' where id = ${hook.id}::bigint`.execute(
        tablesOf(instance().database),
      );
      await write('POST leads', { last_name: 'one' });
      const queued = await settled(hook.id, 'waiting');
      await sql`update crm_event_deliveries set attempts = 1 where id = ${queued.id}::bigint`.execute(
        tablesOf(instance().database),
      );
      let isAvailable = false;
      const settle = createSettler(() => {
        if (!isAvailable) throw new RangeError('not available');
        return tablesOf(instance().database);
      }, deliveryQueue);
      const claimed = { id: queued.id, organization: acme.id, owner: String(hook.id), attempts: 1 };
      const outcome = () =>
        settle({ ...claimed, eventId: '', ageMs: 0, row: {} }, {}, { at: '2026-01-01T00:00:00Z', ms: 1 });
      await assert.rejects(outcome(), RangeError);
      isAvailable = true;
      await outcome();
      assert.equal((await rows(hook.id))[0]?.status, 'done');
    });

    test('is limited to the latest attempts', async () => {
      const hook = await subscribe(204);
      await write('POST leads', { last_name: 'Ames' });
      const { id } = await settled(hook.id, 'done');
      for (let ms = 1; ms <= maxAttempts + 5; ms += 1) {
        const line = attemptLine(
          { failure: { code: 'message', values: { message: 'a\nb' } } },
          { at: '2026-01-01T00:00:00Z', ms },
        );
        await sql`update crm_event_deliveries i set attempt_log = ${sql.raw(withAttempt('i', 'v.line'))}
          from (select ${line}::text as line) v where i.id = ${id}::bigint`.execute(
          tablesOf(instance().database),
        );
      }
      const attempts = attemptsIn((await rows(hook.id))[0]?.attempt_log ?? '');
      assert.deepEqual(
        attempts.map(({ ms }) => ms),
        Array.from({ length: maxAttempts }, (_, index) => maxAttempts + 5 - index),
      );
    });

    test('is not stored again after an erasure by an attempt that was in progress', async () => {
      const hook = await subscribe(204);
      const email = `${fresh('person')}@quill.example`;
      const change = async () => {
        const id = await write('POST leads', { last_name: 'Quillfeather', email });
        await write(`PATCH leads/${id}`, { company: 'Quill' });
      };
      await whilePaused(instance(), [hook.id], 2, change, async () => {
        // As if the first event had been claimed. The next one waits for it.
        await sql`update crm_event_deliveries set attempts = 1 where subscription_id = ${hook.id}::bigint and version = 1`.execute(
          tablesOf(instance().database),
        );
        const args = ['person', 'forget', '--org', 'acme', '--records', `leads?email=${email}`];
        await runCommand(instance(), [...args, '--erase']);
        const [row] = await rows(hook.id);
        assert.ok(row);
        // What the service does when the receiver responds.
        const claimed = { id: row.id, organization: acme.id, owner: String(hook.id), attempts: 1 };
        const settle = createSettler(() => tablesOf(instance().database), deliveryQueue);
        await settle(
          { ...claimed, eventId: '', ageMs: 0, row: {} },
          { failure: { code: 'internal' }, retryMs: 0, values: { request_body: 'Quillfeather' } },
          { at: '2026-01-01T00:00:00Z', ms: 1 },
        );
        const [first, next] = await rows(hook.id);
        assert.deepEqual([first?.request_body, first?.attempt_log], ['', '']);
        assert.deepEqual([first?.attempts, next?.attempts], [2, 0]);
      });
    });

    test('is erased with the record, even if it contains none of the texts, and also in a batch', async () => {
      const single = await subscribe((response, { text }) =>
        response.writeHead(400).end(`rejected: ${text.slice(0, 4000)}`),
      );
      const batched = await subscribe(204, { batch: { max_events: 2, max_wait_seconds: 300 } });
      const email = `${fresh('person')}@quill.example`;
      const id = await write('POST leads', { last_name: 'Quillfeather' });
      await failure(single.id, 'Quillfeather');
      await write('POST leads', { last_name: 'Else' });
      const batch = await settled(batched.id, 'done');
      assert.match(batch.request_body, /Quillfeather/);
      await failure(single.id, 'Else');
      await write(`PATCH leads/${id}`, { last_name: 'Unknown', email });
      const args = ['person', 'forget', '--org', 'acme', '--records', `leads?email=${email}`];
      const preview = await runCommand(instance(), args);
      // Both deliveries about the record, and the event of the batch with its batch; more if the update was already queued.
      const found = preview.json as { rows: Record<string, number> };
      assert.ok(Number(found.rows.crm_event_deliveries) >= 3, preview.text);
      await runCommand(instance(), [...args, '--erase']);
      const all = [...(await rows(single.id)), ...(await rows(batched.id))];
      for (const row of all) assert.doesNotMatch(JSON.stringify(row), /Quillfeather/);
      const erased = all.find((row) => row.id === batch.id);
      assert.deepEqual([erased?.request_body, erased?.attempt_log, erased?.url], ['', '', '']);
      assert.match((await rows(single.id))[1]?.request_body ?? '', /Else/, 'other records are unchanged');
    });
  },
  { environment: file.environment },
);

test('a reason is shown in the language of the page, and only if it explains the current state', () => {
  const failure = { code: 'status', values: { status: '503' } } as const;
  const [latest] = attemptsIn(attemptLine({ failure }, { at: '2026-01-01T00:00:00Z', ms: 5 }));
  const error = reasonSentence(deliveryReasons, failure);
  const shown = (status: string, text: string, language: 'en' | 'de' = 'de') =>
    reasonFor(deliveryReasons, { status, error: text, latest }, language);
  assert.equal(shown('dead', error), 'Der Empfänger hat mit 503 geantwortet');
  assert.equal(shown('dead', error, 'en'), 'The receiver responded with 503');
  assert.equal(shown('dead', 'no response in time'), 'no response in time', 'stored without the reason');
  assert.equal(shown('waiting', ''), '', 'queued again');
  const [skipped] = attemptsIn(attemptLine({ skipped: { code: 'noMatch' } }, { at: '', ms: 0 }));
  assert.equal(
    reasonFor(deliveryReasons, { status: 'done', error: '', latest: skipped }, 'de'),
    'Der Datensatz passt nicht zum Filter',
  );
  const replayed = { status: 'waiting', error: '', latest: skipped };
  assert.equal(reasonFor(deliveryReasons, replayed, 'de'), '', 'a skipped event that was queued again');
  assert.equal(translatedReason(deliveryReasons, { code: 'constructor' }, 'de'), undefined);
  assert.equal(reasonSentence(deliveryReasons, { code: 'newer' }), 'newer', 'a code of a later version');
  const empty = { code: 'message', values: { message: '' } };
  assert.equal(reasonSentence(deliveryReasons, empty), 'message', 'never empty, because that means success');
});

test('a long reason is truncated, and still explains the current state', () => {
  const failure = { code: 'outdatedSelection', values: { message: 'x'.repeat(501) } };
  const [latest] = attemptsIn(attemptLine({ failure }, { at: '2026-01-01T00:00:00Z', ms: 5 }));
  const start = 'x'.repeat(500);
  assert.deepEqual(latest?.reason?.values, { message: start });
  const error = reasonSentence(deliveryReasons, failure);
  assert.equal(error, start);
  assert.equal(
    reasonFor(deliveryReasons, { status: 'dead', error, latest }, 'en'),
    `The filter or the transitions are no longer valid: ${start}`,
  );
});

test('a change that does not move a record into or out of the filter has its own reason', () => {
  for (const [mode, english, german, sentence] of [
    [
      'enters',
      'The change does not make the record match the filter',
      'Der Datensatz passt durch die Änderung nicht neu zum Filter',
      'the record is not one that enters the filter by this change',
    ],
    [
      'leaves',
      'The change does not make the record stop matching the filter',
      'Der Datensatz passt auch nach der Änderung zum Filter oder passte schon vorher nicht',
      'the record is not one that leaves the filter by this change',
    ],
  ] as const) {
    const reason = { code: 'notMoved', values: { mode } };
    const texts = (['en', 'de'] as const).map((language) =>
      translatedReason(deliveryReasons, reason, language),
    );
    assert.deepEqual([...texts, reasonSentence(deliveryReasons, reason)], [english, german, sentence]);
  }
});

test('the title of a batch says whether it contains more events', () => {
  const event = { action: 'create', object: 'pets', id: '5', version: '1' };
  const titleOf = (subject: object) => deliveryTitleIn([], JSON.stringify(subject), 'en');
  const title = 'pets 5 created (version 1)';
  assert.deepEqual(
    [
      titleOf({ events: [event] }),
      titleOf({ count: 1, events: [event] }),
      titleOf({ count: 2, events: [event, event] }),
      titleOf({ count: 3, events: [event, event] }),
      titleOf({ count: 0, events: [] }),
    ],
    [
      title,
      `Batch of 1 event: ${title}`,
      `Batch of 2 events: ${title}, ${title}`,
      `Batch of 3 events: ${title}, ${title}, …`,
      'Batch of 0 events',
    ],
  );
});

test('each kind of change has a title', () => {
  for (const [action, english, german] of [
    ['create', 'pets 5 created (version 2)', 'pets 5 angelegt (Version 2)'],
    ['update', 'pets 5 updated (version 2)', 'pets 5 geändert (Version 2)'],
    ['delete', 'pets 5 deleted (version 2)', 'pets 5 gelöscht (Version 2)'],
    ['trash', 'pets 5 moved to the trash (version 2)', 'pets 5 in den Papierkorb verschoben (Version 2)'],
    ['restore', 'pets 5 restored (version 2)', 'pets 5 wiederhergestellt (Version 2)'],
    ['purge', 'pets 5 deleted permanently (version 2)', 'pets 5 endgültig gelöscht (Version 2)'],
    ['constructor', 'constructor pets 5', 'constructor pets 5'],
  ] as const) {
    const subject = { action, object: 'pets', id: '5', version: '2' };
    assert.deepEqual(
      (['en', 'de'] as const).map((language) => eventTitleIn([], subject, language)),
      [english, german],
    );
  }
});

for (const [code, text] of [
  ['ECONNREFUSED', /abgelehnt \(ECONNREFUSED\)/],
  ['ECONNRESET', /geschlossen/],
  ['EPIPE', /geschlossen/],
  ['EHOSTUNREACH', /nicht erreichbar/],
  ['ENETUNREACH', /nicht erreichbar/],
  ['CERT_HAS_EXPIRED', /TLS-Zertifikat/],
  ['DEPTH_ZERO_SELF_SIGNED_CERT', /TLS-Zertifikat/],
  ['UNABLE_TO_VERIFY_LEAF_SIGNATURE', /TLS-Zertifikat/],
  ['EPROTO', /TLS-Zertifikat/],
  ['ERR_SSL_WRONG_VERSION_NUMBER', /TLS-Zertifikat/],
  ['ERR_TLS_HANDSHAKE_TIMEOUT', /TLS-Zertifikat/],
  ['EMFILE', /fehlgeschlagen \(EMFILE\)/],
  ['', /fehlgeschlagen$/],
] as const)
  test(`a connection that failed with ${code || 'no code'}`, () => {
    const failure = { code: 'connection', values: { code } };
    assert.match(translatedReason(deliveryReasons, failure, 'de') ?? '', text);
    assert.equal(
      reasonSentence(deliveryReasons, failure),
      code === '' ? 'connection failed' : `connection failed (${code})`,
    );
  });
