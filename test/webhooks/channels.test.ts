// Channel webhooks: verified against the raw body, stored once per event, answered, then processed.

import assert from 'node:assert/strict';
import { createHmac } from 'node:crypto';
import { after, before, describe, test } from 'node:test';
import { tablesOf } from '../../engine/tables/handle.ts';
import { instanceSecrets } from '../../plugins/access/secrets/instance-secrets.ts';
import { sealing } from '../../plugins/access/secrets/sealing.ts';
import { openIntegration, setIntegrationEnabled } from '../../webhooks/inbox/integrations.ts';
import {
  leadgenBody,
  providers,
  publicUrl,
  type Sends,
  twilioForm,
  whatsappBody,
} from '../support/channels.ts';
import { administratorOf, readable, signIn } from '../support/forms.ts';
import { type Organization, onBothDrivers } from '../support/instance.ts';
import {
  type Added,
  deliver,
  inboxOf,
  integrate,
  metaSignature,
  settingsFile,
  sha256,
  twilioSignature,
} from '../support/partners.ts';
import { command, dump, secondNode } from '../support/people.ts';
import { connected } from '../support/postgres.ts';
import { until } from '../support/process.ts';
import { startProvider } from '../support/providers.ts';
import { assertErrorShape } from '../support/scenario.ts';
import { untilWaiting } from '../support/uncommitted.ts';

const graph = await startProvider();
after(() => graph.close());
const { environment } = settingsFile({
  public_url: `${publicUrl}/`,
  graph: { base_url: graph.url, timeout_ms: 20_000 },
});
let ids = 1_000_000;
/** Digits, so that every provider accepts it as an ID. */
const freshId = () => String(++ids);

onBothDrivers(
  'channels',
  (instance, driver) => {
    let organization: Organization;
    let other: Organization;
    const added: Record<string, Added> = {};
    before(async () => {
      organization = await instance().organization('acme');
      other = await instance().organization('other');
      for (const { provider } of providers)
        added[provider] = await integrate(instance(), organization, provider);
    });
    const of = (provider: string): Added => added[provider] ?? assert.fail(provider);
    const post = (
      { provider, type }: Sends,
      raw: string,
      headers: Record<string, string>,
      path = of(provider).path,
    ) => instance().call(`POST ${path}`, { body: raw, headers: { 'content-type': type, ...headers } });
    const assertAccepted = (sends: Sends, raw: string) =>
      post(sends, raw, sends.headers(of(sends.provider), raw));
    const stored = async ({ provider, eventId }: Sends, id: string) =>
      (await inboxOf(instance(), of(provider))).filter(({ event_id }) => event_id === eventId(id));
    const received = async (provider: string) =>
      tablesOf(instance().database)
        .selectFrom('crm_received_messages')
        .selectAll()
        .where('integration_id', '=', of(provider).id)
        .execute();

    for (const sends of providers) {
      const { provider, handshake, type, sizes, body, headers, reply, from } = sends;
      describe(provider, () => {
        const ask = (query: Record<string, string>) =>
          instance().call(`GET ${of(provider).path}?${new URLSearchParams(query)}`);
        const mode = { 'hub.mode': 'subscribe' };
        if (handshake) {
          test('handshake: the correct token gets the challenge as plain text', async () => {
            for (const challenge of ['1158201444', '<script>alert(1)</script>', '']) {
              const answer = await ask({
                ...mode,
                'hub.verify_token': of(provider).verifyToken,
                'hub.challenge': challenge,
              });
              assert.deepEqual([answer.status, answer.text], [200, challenge]);
              assert.match(answer.headers.get('content-type') ?? '', /^text\/plain/);
              assert.equal(answer.headers.get('x-content-type-options'), 'nosniff');
            }
          });
          test('handshake: only the start of a long challenge is returned', async () => {
            const query = { ...mode, 'hub.verify_token': of(provider).verifyToken };
            const { text } = await ask({ ...query, 'hub.challenge': `${'1'.repeat(1000)}2` });
            assert.equal(text, '1'.repeat(1000));
          });
          const refused: readonly [string, () => Record<string, string>][] = [
            ['a wrong token', () => ({ ...mode, 'hub.verify_token': 'wrong', 'hub.challenge': '<b>1' })],
            ['an empty token', () => ({ ...mode, 'hub.verify_token': '', 'hub.challenge': '1' })],
            ['no token', () => ({ ...mode, 'hub.challenge': '1' })],
            [
              'the app secret as token',
              () => ({ ...mode, 'hub.verify_token': of(provider).secret, 'hub.challenge': '1' }),
            ],
            [
              'another mode',
              () => ({
                'hub.mode': 'unsubscribe',
                'hub.verify_token': of(provider).verifyToken,
                'hub.challenge': '1',
              }),
            ],
            ['no mode', () => ({ 'hub.verify_token': of(provider).verifyToken, 'hub.challenge': '1' })],
            ['no challenge', () => ({ ...mode, 'hub.verify_token': of(provider).verifyToken })],
            ['nothing', () => ({})],
          ];
          for (const [name, query] of refused) {
            test(`handshake: ${name} → 403 without the challenge`, async () => {
              const answer = await ask(query());
              assert.equal(answer.status, 403);
              assertErrorShape(answer);
              assert.doesNotMatch(answer.text, /<b>/);
            });
          }
        } else {
          test('no handshake: GET → 405', async () => {
            const answer = await ask(mode);
            assert.deepEqual([answer.status, answer.headers.get('allow')], [405, 'POST']);
          });
        }

        test('a signed delivery gets the expected response, is stored once and processed', async () => {
          const id = freshId();
          for (let times = 0; times < 3; times++) {
            const answer = await assertAccepted(sends, body(id, 'Grüße & <b>{{x}}</b> 😀'));
            assert.deepEqual([answer.status, answer.text], [200, reply.body]);
            assert.match(answer.headers.get('content-type') ?? '', reply.type);
          }
          assert.equal((await stored(sends, id)).length, 1);
          if (from === undefined) return;
          await until(async () => (await stored(sends, id))[0]?.status === 'done', 'process it');
          const messages = (await received(provider)).filter(({ provider_id }) => provider_id === id);
          assert.deepEqual(
            messages.map((message) => [message.sender, message.body]),
            [[from, 'Grüße & <b>{{x}}</b> 😀']],
          );
        });

        test('20 concurrent deliveries: stored once', async () => {
          const id = freshId();
          const answers = await Promise.all(
            Array.from({ length: 20 }, () => assertAccepted(sends, body(id))),
          );
          assert.deepEqual(new Set(answers.map(({ status }) => status)), new Set([200]));
          assert.equal((await stored(sends, id)).length, 1);
        });

        test('a wrong signature → 401 for any body, and nothing is stored', async () => {
          const id = freshId();
          const raw = body(id);
          const good = headers(of(provider), raw);
          const [name = ''] = Object.keys(good);
          const signature = good[name] ?? '';
          const flip = (at: number) =>
            `${signature.slice(0, at)}${signature[at] === 'a' ? 'b' : 'a'}${signature.slice(at + 1)}`;
          const wrong: readonly [string, Record<string, string>][] = [
            [raw, {}],
            [raw, { [name]: '' }],
            [raw, { [name]: flip(8) }],
            [raw, { [name]: flip(signature.length - 3) }],
            [raw, { [name]: signature.slice(0, -1) }],
            [raw, { [name]: `${signature}, ${signature}` }],
            [raw, headers({ ...of(provider), secret: 'another' }, raw)],
            [raw, headers({ ...of(provider), secret: '' }, raw)],
            [raw, headers({ ...of(provider), secret: of(provider).token }, raw)],
            [raw, { authorization: `Bearer ${organization.key}` }],
            [raw, { authorization: `Bearer ${of(provider).secret}` }],
            ['{', {}],
            // Telegram sends its secret. The other providers sign the body.
            ...(provider === 'telegram'
              ? []
              : ([
                  [raw.replace('1', '2'), good],
                  [`${raw} `, good],
                ] as [string, Record<string, string>][])),
          ];
          for (const [index, [bytes, headerSet]] of wrong.entries()) {
            const answer = await post(sends, bytes, headerSet);
            assert.equal(answer.status, 401, `${index}: ${answer.text}`);
            assertErrorShape(answer);
          }
          assert.deepEqual(await stored(sends, id), []);
        });

        test(`${sizes[0]} bytes are accepted, more than ${sizes[1]} are rejected`, async () => {
          const id = freshId();
          assert.equal((await assertAccepted(sends, body(id, 'x'.repeat(sizes[0])))).status, 200);
          assert.equal((await stored(sends, id)).length, 1);
          const large = await assertAccepted(sends, body(freshId(), 'x'.repeat(sizes[1])));
          assert.equal(large.status, 413);
          assertErrorShape(large);
        });

        test('a signed body with another Content-Type → 400', async () => {
          const raw = body(freshId());
          for (const other of [
            'text/plain',
            'text/xml',
            'multipart/form-data; boundary=x',
            'application/jsonx',
          ]) {
            const answer = await post(sends, raw, { ...headers(of(provider), raw), 'content-type': other });
            assert.equal(answer.status, 400, other);
          }
        });

        test('signed garbage is rejected or ignored, but never causes a failure', async () => {
          const bodies =
            type === 'application/json'
              ? [
                  '{',
                  '',
                  '[]',
                  'null',
                  '7',
                  '{}',
                  '{"object":"page"}',
                  '{"object":"page","entry":7}',
                  '{"update_id":{"source":{"toString":1}}}',
                  '{"object":"page","entry":[null,{"changes":[null,{"field":"leadgen","value":{"leadgen_id":{"source":{"toString":1}}}}],"messaging":[{"message":{"mid":{"source":[]}}},5]}]}',
                  `${'['.repeat(100_000)}`,
                  '{"update_id":"\\u0000"}',
                ]
              : ['', 'MessageSid', 'MessageSid=&x=%', 'MessageSid=%00&From=%00&Body=%ED%A0%80', '%%%'];
          for (const raw of bodies) {
            const answer = await assertAccepted(sends, raw);
            assert.ok([200, 400].includes(answer.status), `${raw.slice(0, 40)}: ${answer.status}`);
          }
        });

        test('an unknown URL → 404 before the signature is verified', async () => {
          const raw = body(freshId());
          const good = headers(of(provider), raw);
          const { path } = of(provider);
          const [neighbour = ''] = providers.map((item) => item.provider).filter((item) => item !== provider);
          const paths = [
            path.replace(provider, 'unknown'),
            path.replace(`/${provider}/`, '/__proto__/'),
            path.replace(`/${provider}/`, `/${neighbour}/`),
            `${path}x`,
            path.slice(0, -1),
            path.replace(/[^/]+$/, 'x'.repeat(24)),
            path.replace(/[^/]+$/, '%00'),
            path.replace(/[^/]+$/, ''),
          ];
          for (const item of paths) {
            for (const headerSet of [good, {}])
              assert.equal((await post(sends, raw, headerSet, item)).status, 404, item);
            assert.equal((await instance().call(`GET ${item}`)).status, 404, item);
          }
        });

        test('disabled → 404, enabled again → 200', async () => {
          const one = await integrate(instance(), organization, provider);
          const raw = body(freshId());
          const status = async () => (await post(sends, raw, headers(one, raw), one.path)).status;
          const turn = (on: boolean) =>
            setIntegrationEnabled(
              tablesOf(instance().database),
              command(instance()),
              organization.id,
              one.id,
              on,
            );
          assert.equal(await status(), 200);
          await turn(false);
          assert.equal(await status(), 404);
          await turn(true);
          assert.equal(await status(), 200);
        });

        test('the same event ID of another integration is a different event', async () => {
          const foreign = await integrate(instance(), other, provider);
          const raw = body(freshId());
          assert.equal((await post(sends, raw, headers(of(provider), raw), foreign.path)).status, 401);
          assert.equal((await assertAccepted(sends, raw)).status, 200);
          assert.equal((await post(sends, raw, headers(foreign, raw), foreign.path)).status, 200);
          assert.equal((await inboxOf(instance(), foreign)).length, 1);
        });
      });
    }

    test('secrets are encrypted at rest and can be decrypted', async () => {
      const text = await dump(instance());
      for (const { secret, token, verifyToken, id } of Object.values(added)) {
        for (const hidden of [secret, token, verifyToken]) assert.ok(!text.includes(hidden), hidden);
        const sealed = sealing(instanceSecrets(instance().config));
        const opened = await openIntegration(tablesOf(instance().database), sealed, {
          organization: organization.id,
          id,
        });
        assert.deepEqual([opened?.secret, opened?.token], [secret, token]);
        assert.equal(
          await openIntegration(tablesOf(instance().database), sealed, { organization: other.id, id }),
          undefined,
        );
      }
    });

    test('the page of an integration shows its URL below the public origin', async () => {
      const admin = await signIn(instance(), administratorOf(organization));
      const { id, path } = of('twilio');
      const { text } = await admin.get(`/setup/o/acme/integrations/integration?id=${id}`);
      assert.ok(readable(text).includes(`${publicUrl}${path}`), text);
    });

    test('the response does not wait for processing', async () => {
      graph.behave('slow');
      const [, leads = assert.fail()] = providers;
      const id = freshId();
      assert.equal((await assertAccepted(leads, leads.body(id))).status, 200);
      assert.equal((await stored(leads, id))[0]?.status, 'waiting');
      graph.behave('fine');
    });

    describe('WhatsApp statuses', () => {
      const orders: readonly [readonly string[], string][] = [
        [['sent', 'delivered', 'read'], 'read'],
        [['read', 'delivered', 'sent'], 'read'],
        [['delivered', 'sent'], 'delivered'],
        [['failed'], 'failed'],
        [['sent', 'sent'], 'sent'],
        [['x'.repeat(41)], 'x'.repeat(40)],
      ];
      for (const [order, expected] of orders) {
        test(`${order.join(', ')} → ${expected}`, async () => {
          const id = `wamid.${freshId()}`;
          const tables = tablesOf(instance().database);
          // The other organization's message is stored first.
          for (const { id: organization_id } of [other, organization]) {
            const sent = {
              recipient: '1',
              body: 'x',
              template: '',
              status: 'sent',
              provider_id: id,
              error: null,
            };
            await tables
              .insertInto('crm_messages')
              .values({ organization_id, ...sent })
              .execute();
          }
          for (const status of order) {
            const raw = whatsappBody({ statuses: [{ id, status, timestamp: '1', recipient_id: '1' }] });
            assert.equal((await deliver(instance(), of('whatsapp'), raw)).status, 200);
            await until(
              async () =>
                (await inboxOf(instance(), of('whatsapp'))).every((item) => item.status !== 'waiting'),
              'process all',
            );
          }
          const rows = await tables
            .selectFrom('crm_messages')
            .selectAll()
            .where('provider_id', '=', id)
            .execute();
          const statusOf = ({ id: owner }: Organization) =>
            rows.find((row) => String(row.organization_id) === owner)?.status;
          assert.deepEqual([statusOf(organization), statusOf(other)], [expected, 'sent']);
        });
      }
    });

    if (driver === 'postgresql')
      test('a status that is processed while a later one is stored does not replace it', async () => {
        const id = `wamid.${freshId()}`;
        const tables = tablesOf(instance().database);
        const message = { recipient: '1', body: 'x', template: '', status: 'sent', error: null };
        await tables
          .insertInto('crm_messages')
          .values({ organization_id: organization.id, ...message, provider_id: id })
          .execute();
        await connected(String(instance().config.environment.DATABASE_URL), async (client) => {
          await client.query('begin');
          await client.query("update crm_messages set status = 'read' where provider_id = $1", [id]);
          const raw = whatsappBody({
            statuses: [{ id, status: 'delivered', timestamp: '1', recipient_id: '1' }],
          });
          assert.equal((await deliver(instance(), of('whatsapp'), raw)).status, 200);
          await untilWaiting(client, 'the other status to wait');
          await client.query('commit');
        });
        await until(
          async () =>
            (await inboxOf(instance(), of('whatsapp'))).some(
              ({ event_id, status }) => event_id === `${id} delivered` && status === 'done',
            ),
          'process the other status',
        );
        const stored = tables.selectFrom('crm_messages').select('status').where('provider_id', '=', id);
        assert.deepEqual(await stored.execute(), [{ status: 'read' }]);
      });

    test('a status of a message that is not stored yet is retried for a minute, and then ignored', async () => {
      const tables = tablesOf(instance().database);
      const deliverStatus = async () => {
        const id = `wamid.${freshId()}`;
        const raw = whatsappBody({ statuses: [{ id, status: 'read', timestamp: '1', recipient_id: '1' }] });
        assert.equal((await deliver(instance(), of('whatsapp'), raw)).status, 200);
        const item = async () =>
          (await inboxOf(instance(), of('whatsapp'))).find(({ event_id }) => event_id === `${id} read`) ??
          assert.fail();
        await until(async () => (await item()).error !== '', 'fail');
        const { status, error } = await item();
        assert.deepEqual(
          [status, error],
          ['waiting', 'the status refers to a message that has not been stored yet'],
        );
        return { id, item };
      };
      const due = (id: string) =>
        tables
          .updateTable('crm_inbox')
          .set({ next_at: new Date(0) })
          .where('event_id', '=', `${id} read`);
      const late = await deliverStatus();
      const message = { recipient: '1', body: 'x', template: '', status: 'sent', error: null };
      await tables
        .insertInto('crm_messages')
        .values({ organization_id: organization.id, ...message, provider_id: late.id })
        .execute();
      await due(late.id).execute();
      await until(async () => (await late.item()).status === 'done', 'find the message');
      const stored = tables.selectFrom('crm_messages').select('status').where('provider_id', '=', late.id);
      assert.deepEqual(await stored.execute(), [{ status: 'read' }]);

      const foreign = await deliverStatus();
      // Another failure would be the last one.
      const attempts = instance().app.webhooks.settings.current.inbox.attempts - 1;
      await due(foreign.id)
        .set({ received_at: new Date(Date.now() - 61_000), attempts })
        .execute();
      await until(async () => (await foreign.item()).status !== 'waiting', 'be ignored');
      assert.equal((await foreign.item()).status, 'done');
    });

    describe('a message', () => {
      const sender = { id: '7001' };
      const attachment = { type: 'image', payload: { url: 'https://cdn.example/1' } };
      const messaging = (object: string) => (mid: string) =>
        JSON.stringify({
          object,
          entry: [{ messaging: [{ sender, message: { mid, attachments: [attachment] } }] }],
        });
      const form = (changes: Record<string, string>) => (id: string) =>
        new URLSearchParams({ ...twilioForm(id, ''), ...changes }).toString();
      const messages: readonly [
        name: string,
        provider: string,
        body: (id: string) => string,
        from: string,
        text: string,
      ][] = [
        [
          'of another type has its type as text',
          'whatsapp',
          (id) => whatsappBody({ messages: [{ from: '7001', id, type: 'image', image: { id: '1' } }] }),
          '7001',
          '[image]',
        ],
        ['without text is an attachment', 'messenger', messaging('page'), '7001', '[attachment]'],
        ['without text is an attachment', 'instagram', messaging('instagram'), '7001', '[attachment]'],
        [
          'without text is an attachment',
          'telegram',
          (id) => `{"update_id":${id},"message":{"from":{"id":7001},"chat":{"id":8001},"photo":[]}}`,
          '7001',
          '[attachment]',
        ],
        [
          'without a sender is from the chat',
          'telegram',
          (id) => `{"update_id":${id},"message":{"chat":{"id":-1001234567890123456},"text":"Hello"}}`,
          '-1001234567890123456',
          'Hello',
        ],
        ['with media is an attachment', 'twilio', form({ NumMedia: '2' }), '+15550107001', '[attachment]'],
        ['without text and media is empty', 'twilio', form({}), '+15550107001', ''],
        [
          'with media and text has its text',
          'twilio',
          form({ NumMedia: '1', Body: 'Look' }),
          '+15550107001',
          'Look',
        ],
      ];
      for (const [name, provider, body, from, text] of messages) {
        test(`${name} (${provider})`, async () => {
          const sends = providers.find((item) => item.provider === provider) ?? assert.fail();
          const id = freshId();
          assert.equal((await assertAccepted(sends, body(id))).status, 200);
          await until(async () => (await stored(sends, id))[0]?.status === 'done', 'process it');
          const found = (await received(provider)).filter(({ provider_id }) => provider_id === id);
          assert.deepEqual(
            found.map((message) => [message.sender, message.body]),
            [[from, text]],
          );
        });
      }
    });

    for (const sends of providers.filter(({ handshake }) => handshake)) {
      test(`${sends.provider}: deliveries about other objects and fields are ignored`, async () => {
        for (const key of ['object', 'field']) {
          const id = freshId();
          const good = sends.body(id);
          const other = good.replace(new RegExp(`"${key}":"\\w+"`), `"${key}":"other"`);
          const answer = await assertAccepted(sends, other);
          assert.deepEqual([answer.status, answer.text], [200, sends.reply.body]);
          // The deliveries of Messenger and Instagram have no fields.
          assert.equal((await stored(sends, id)).length, other === good ? 1 : 0, key);
        }
      });
    }

    test('WhatsApp: messages and statuses without an ID are ignored', async () => {
      const before = (await inboxOf(instance(), of('whatsapp'))).length;
      const raw = whatsappBody({ messages: [{ from: '7001' }], statuses: [{}] });
      assert.equal((await deliver(instance(), of('whatsapp'), raw)).status, 200);
      assert.equal((await inboxOf(instance(), of('whatsapp'))).length, before);
    });

    test('WhatsApp: message IDs of any length identify a message', async () => {
      const id = Array.from({ length: 3000 }, (_, index) => String.fromCodePoint(0x4e00 + index)).join('');
      for (const each of [id, `${id}x`, id]) {
        const raw = whatsappBody({
          messages: [{ from: '7001', id: each, type: 'text', text: { body: String(each.length) } }],
        });
        assert.equal((await deliver(instance(), of('whatsapp'), raw)).status, 200);
      }
      const digests = [id, `${id}x`].map(sha256);
      const items = async () =>
        (await inboxOf(instance(), of('whatsapp'))).filter(({ event_id }) => digests.includes(event_id));
      await until(
        async () => (await items()).every(({ status }) => status !== 'waiting'),
        'process the messages',
      );
      assert.deepEqual(
        (await items()).map(({ event_id, status }) => [event_id, status]),
        digests.map((digest) => [digest, 'done']),
      );
      const found = (await received('whatsapp')).filter(({ provider_id }) => digests.includes(provider_id));
      assert.deepEqual(found.map(({ body }) => body).toSorted(), ['3000', '3001']);
    });

    test('Messenger: echoes of outgoing messages and Instagram deliveries are ignored', async () => {
      const before = (await inboxOf(instance(), of('messenger'))).length;
      const echo = {
        object: 'page',
        entry: [{ messaging: [{ message: { mid: freshId(), is_echo: true } }, { delivery: {} }] }],
      };
      for (const payload of [echo, { ...echo, object: 'instagram' }, { object: 'page', entry: [] }]) {
        assert.equal((await deliver(instance(), of('messenger'), payload)).status, 200);
      }
      assert.equal((await inboxOf(instance(), of('messenger'))).length, before);
    });

    test('Telegram: updates without a message are processed; IDs above 2^53 stay exact', async () => {
      const telegram = providers.find(({ provider }) => provider === 'telegram') ?? assert.fail();
      await until(
        async () => (await inboxOf(instance(), of('telegram'))).every(({ status }) => status !== 'waiting'),
        'process the messages of earlier tests',
      );
      const messages = (await received('telegram')).length;
      const id = freshId();
      await assertAccepted(telegram, `{"update_id":${id},"my_chat_member":{}}`);
      const large = ['9007199254740993', '9007199254740992'];
      for (const item of large) await assertAccepted(telegram, telegram.body(item));
      for (const item of [id, ...large]) {
        await until(async () => (await stored(telegram, item))[0]?.status === 'done', `process ${item}`);
      }
      assert.equal((await received('telegram')).length, messages + 2);
    });

    test('Twilio: the public URL is signed, and the digest of a JSON body', async () => {
      const { path, secret } = of('twilio');
      const form = twilioForm(`SM${freshId()}`, '');
      const raw = new URLSearchParams(form).toString();
      const type = 'application/x-www-form-urlencoded';
      const send = async (
        url: string,
        signature: string,
        body = raw,
        contentType = type,
        on = instance().call,
      ) =>
        (
          await on(`POST ${url}`, {
            body,
            headers: { 'content-type': contentType, 'x-twilio-signature': signature },
          })
        ).status;
      assert.equal(await send(path, twilioSignature(secret, `http://crm.example${path}`, form)), 401);
      assert.equal(await send(path, twilioSignature(secret, `${instance().url}${path}`, form)), 401);
      assert.equal(await send(`${path}?a=1`, twilioSignature(secret, `${publicUrl}${path}`, form)), 401);
      assert.equal(await send(`${path}?a=1`, twilioSignature(secret, `${publicUrl}${path}?a=1`, form)), 200);
      const json = JSON.stringify({ MessageSid: `SM${freshId()}`, From: '+15550107002', Body: 'In JSON' });
      const digested = `${path}?bodySHA256=${sha256(json)}`;
      const signature = twilioSignature(secret, `${publicUrl}${digested}`);
      assert.equal(await send(digested, signature, json, 'application/json'), 200);
      assert.equal(await send(digested, signature, '{"a":2}', 'application/json'), 401);
      const isReceived = async () =>
        (await received('twilio')).some(
          ({ sender, body }) => sender === '+15550107002' && body === 'In JSON',
        );
      await until(isReceived, 'process the delivery in JSON');
      for (const public_url of ['', '${NO_ADDRESS}']) {
        const file = settingsFile({ public_url });
        const node = await secondNode(instance(), { settingsFile: file.path });
        assert.equal(
          await send(path, twilioSignature(secret, path, form), raw, type, node.call),
          401,
          public_url,
        );
        await node.close();
      }
    });

    describe('Twilio: digest and signature must both be valid', () => {
      const json = '{"MessageSid":"SMjson"}';
      const raw = () => new URLSearchParams(twilioForm(`SM${freshId()}`, 'x')).toString();
      const bodies = {
        'application/json': () => json,
        'application/x-www-form-urlencoded': raw,
      };
      const digests = {
        right: sha256,
        'in capitals': (body: string) => sha256(body).toUpperCase(),
        'of another body': () => sha256('another'),
        empty: () => '',
        absent: () => undefined,
      };
      const signatures = {
        right: (url: string, secret: string) => twilioSignature(secret, url),
        'by another secret': (url: string) => twilioSignature('another secret', url),
        'for another URL': (url: string, secret: string) => twilioSignature(secret, `${url}x`),
        'for the URL without the digest': (url: string, secret: string) =>
          twilioSignature(secret, url.replace(/\?.*/, '')),
        empty: () => '',
        absent: () => undefined,
      };
      for (const [type, body] of Object.entries(bodies)) {
        for (const [digest, digestOf] of Object.entries(digests)) {
          for (const [signature, sign] of Object.entries(signatures)) {
            const accepted = ['right', 'in capitals'].includes(digest) && signature === 'right';
            test(`${type}: digest ${digest}, signature ${signature} → ${accepted ? 200 : 401}`, async () => {
              const { path, secret, id } = of('twilio');
              const bytes = body();
              const sum = digestOf(bytes);
              const url = sum === undefined ? path : `${path}?bodySHA256=${sum}`;
              const signatureHeader = sign(`${publicUrl}${url}`, secret);
              const count = async () => (await inboxOf(instance(), { id })).length;
              const before = await count();
              const headers = signatureHeader === undefined ? {} : { 'x-twilio-signature': signatureHeader };
              const call = { body: bytes, headers: { 'content-type': type, ...headers } };
              const answer = await instance().call(`POST ${url}`, call);
              assert.equal(answer.status, accepted ? 200 : 401, answer.text);
              if (!accepted) assert.equal(await count(), before);
            });
          }
        }
      }

      // The expected signed text: sorted by name, then by value, without duplicate pairs.
      for (const [body, signedText] of [
        ['b=2&a=1', 'a1b2'],
        ['a=2&a=1', 'a1a2'],
        ['a=2&b=x&a=1&a=2', 'a1a2bx'],
        ['a=1&a=1&a=1', 'a1'],
        ['a=&a=&b=', 'ab'],
        ['B=1&a=1&A=1', 'A1B1a1'],
      ] as const) {
        test(`repeated parameters: ${body} is signed as ${signedText}`, async () => {
          const { path, secret } = of('twilio');
          const signatureOf = (text: string) =>
            createHmac('sha1', secret).update(`${publicUrl}${path}${text}`).digest('base64');
          for (const [text, status] of [
            [signedText, 200],
            [`${signedText}a1`, 401],
          ] as const) {
            const headers = {
              'content-type': 'application/x-www-form-urlencoded',
              'x-twilio-signature': signatureOf(text),
            };
            assert.equal((await instance().call(`POST ${path}`, { body, headers })).status, status, text);
          }
        });
      }

      test('too many parameters are rejected without sorting', async () => {
        const { path, secret } = of('twilio');
        for (const [count, status] of [
          [500, 200],
          [501, 401],
        ] as const) {
          const form = Object.fromEntries(Array.from({ length: count }, (_, index) => [`p${index}`, '1']));
          const headers = {
            'content-type': 'application/x-www-form-urlencoded',
            'x-twilio-signature': twilioSignature(secret, `${publicUrl}${path}`, form),
          };
          const body = new URLSearchParams(form).toString();
          assert.equal((await instance().call(`POST ${path}`, { body, headers })).status, status);
        }
      });
    });

    test('too many events → 400, and none is stored', async () => {
      const page = of('meta-lead-ads');
      const before = (await inboxOf(instance(), page)).length;
      const many = Array.from({ length: 2001 }, () => ({ leadgen: `"${freshId()}"` }));
      assert.equal((await deliver(instance(), page, leadgenBody(...many))).status, 400);
      assert.equal((await inboxOf(instance(), page)).length, before);
    });

    test('signatures are case-insensitive; other algorithms are rejected', async () => {
      const [whatsapp = assert.fail()] = providers;
      const raw = whatsapp.body(freshId());
      const { secret } = of('whatsapp');
      const signature = metaSignature(secret, raw);
      for (const [signatureHeader, status] of [
        [signature.toUpperCase(), 200],
        [signature.replace('sha256', 'sha1'), 401],
        [signature.slice(7), 401],
      ] as const) {
        assert.equal((await post(whatsapp, raw, { 'x-hub-signature-256': signatureHeader })).status, status);
      }
      assert.equal((await post(whatsapp, raw, { 'x-hub-signature': signature })).status, 401);
    });
  },
  { environment },
);
