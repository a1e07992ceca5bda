// Channels of modules: the example for an SMS gateway, which a local server plays, and modules that fail.
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { sql } from 'kysely';
import { loadConfig } from '../../app/config.ts';
import { modules } from '../../app/modules.ts';
import { tablesOf } from '../../engine/tables/handle.ts';
import { listRows } from '../../engine/tables/index.ts';
import { instanceSecrets } from '../../plugins/access/secrets/instance-secrets.ts';
import { sealing } from '../../plugins/access/secrets/sealing.ts';
import { RetryableError } from '../../webhooks/channels/channel.ts';
import { channelsOf } from '../../webhooks/channels/channels.ts';
import { type ModuleChannel, moduleChannel } from '../../webhooks/channels/module-channel.ts';
import { unknownChannels } from '../../webhooks/inbox/check.ts';
import { inboxQueue, labeledInbox } from '../../webhooks/inbox/inbox.ts';
import {
  openIntegration,
  removeIntegration,
  setIntegrationEnabled,
} from '../../webhooks/inbox/integrations.ts';
import { partnerStatus } from '../../webhooks/partner-status/status.ts';
import { itemRows, replayItem } from '../../webhooks/queue/items.ts';
import { send } from '../../webhooks/sender/sender.ts';
import { readSettings } from '../../webhooks/settings/load.ts';
import { simulate } from '../../webhooks/simulate/run.ts';
import { prepareSimulation } from '../../webhooks/simulate/simulate.ts';
import { administratorOf, signIn } from '../support/forms.ts';
import { type Organization, onBothDrivers, temporaryFolder } from '../support/instance.ts';
import { logged } from '../support/logged.ts';
import { type Added, hmacHex, inboxOf, integrate, settingsFile } from '../support/partners.ts';
import { command, dump } from '../support/people.ts';
import { project, until } from '../support/process.ts';

/** A request that the gateway received. */
interface Sent {
  readonly path: string | undefined;
  readonly authorization: string | undefined;
  readonly body: unknown;
}

/** Plays the SMS gateway, which accepts messages unless its status is changed. */
async function startGateway() {
  const sent: Sent[] = [];
  const gateway = { status: 200 };
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      const { url: path, headers } = request;
      const body: unknown = JSON.parse(Buffer.concat(chunks).toString());
      sent.push({ path, authorization: headers.authorization, body });
      response.writeHead(gateway.status, { 'content-type': 'application/json' });
      response.end(JSON.stringify({ id: `out-${sent.length}` }));
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}/`,
    sent,
    answer: (status: number) => {
      gateway.status = status;
    },
    close: () => new Promise((resolve) => server.close(resolve)),
  };
}

const gateway = await startGateway();
after(() => gateway.close());

/** A module whose channel fails in different ways. The body of a delivery is its event. */
const faulty = `import { defineModule, storeMessage } from 'crm-engine';
const channel = {
  label: 'Faulty',
  secretLabel: 'Key',
  secretHelp: 'Choose a key.',
  accepts: /^text\\/plain/,
  bodyLimit: 1000,
  reply: { type: 'text/plain', body: 'ok' },
  verify: async ({ headers }, secret) => headers['x-key'] === secret,
  events: ({ raw }) => {
    const text = raw.toString();
    if (text === 'syntax') JSON.parse('{');
    return [{ id: text === 'nameless' ? '' : text, data: text === 'dataless' ? undefined : { text } }];
  },
  process: async ({ id, data }, context) => {
    if ('webhooks' in context) throw new RangeError('the services are private');
    if (data.text === 'type error' && globalThis.isChannelFixed !== true) throw new TypeError('personal data of Ada');
    const text = data.text === 'a text that cannot be stored' ? '\\0' : data.text;
    await storeMessage(context, { id, from: context.variables.sender, text });
  },
  send: async () => { throw new TypeError('personal data of Ada'); },
};
export default defineModule({
  name: 'faulty',
  variables: { sender: { name: 'FAULTY_SENDER', read: (text) => text ?? 'unset', expected: 'a text', fallback: 'unset' } },
  channels: { faulty: channel, 'faulty-object': { ...channel, verify: () => ({}) } },
});
`;

const folder = temporaryFolder();
after(folder.remove);
writeFileSync(join(folder.path, 'package.json'), '{ "type": "module" }');
writeFileSync(join(folder.path, 'faulty.js'), faulty);

const token = 'the-booking-token';
const settings = {
  modules: [`${project}/examples/sms-channel.ts`, join(folder.path, 'faulty.js')],
  'sms-channel': { url: '${GATEWAY_URL}' },
  partners: { booking_forms_whatsapp: { secrets: [token], organization: 'acme' } },
  messaging: { acme: { sender: 'sms' }, beta: { sender: 'faulty' } },
};
const environment = { GATEWAY_URL: gateway.url };
const file = settingsFile(settings, environment);

onBothDrivers(
  'channels of modules',
  (instance) => {
    let acme: Organization;
    let sms: Added;
    before(async () => {
      acme = await instance().organization('acme');
      sms = await integrate(instance(), acme, 'sms');
    });
    const post = (body: string, headers: Readonly<Record<string, string>> = {}, path = sms.path) =>
      instance().call(`POST ${path}`, {
        body,
        headers: {
          'content-type': 'application/json',
          'x-gateway-signature': hmacHex(sms.secret, body),
          ...headers,
        },
      });
    const deliver = (payload: object) => post(JSON.stringify(payload));
    const message = (id: string, text = 'Hello') => ({ messages: [{ id, from: '+15550107001', text }] });
    const settled = (of: Pick<Added, 'id'>) =>
      until(
        async () => (await inboxOf(instance(), of)).every(({ status }) => status !== 'waiting'),
        'process all events',
      );
    const received = (of: Pick<Added, 'id'>) =>
      tablesOf(instance().database)
        .selectFrom('crm_received_messages')
        .select(['provider_id', 'sender', 'body'])
        .where('integration_id', '=', of.id)
        .orderBy('id')
        .execute();
    const book = (body: object = {}) =>
      instance().call('POST /api/booking-forms/whatsapp', {
        key: token,
        body: { to: '+15550107001', message: 'See you at 9', ...body },
      });
    const outgoing = async () => {
      const rows = await tablesOf(instance().database)
        .selectFrom('crm_messages')
        .select(['status', 'provider_id', 'error'])
        .where('organization_id', '=', acme.id)
        .orderBy('id', 'desc')
        .limit(1)
        .execute();
      return rows[0];
    };

    test('a signed delivery is stored once and processed', async () => {
      for (let time = 0; time < 2; time++) {
        const answer = await deliver(message('in-1'));
        assert.deepEqual([answer.status, answer.text], [200, '{"ok":true}']);
      }
      await deliver({
        messages: [{ id: 'in-1', from: '1', text: 'again' }, { id: 'in-2', from: '2', text: 'Two' }, 7],
      });
      await settled(sms);
      assert.deepEqual(await received(sms), [
        { provider_id: 'in-1', sender: '+15550107001', body: 'Hello' },
        { provider_id: 'in-2', sender: '2', body: 'Two' },
      ]);
      const created = await instance().call('POST /api/v1/leads', {
        key: acme.key,
        body: { last_name: 'Ames', phone: '+1 555 010 7001' },
      });
      const admin = await signIn(instance(), administratorOf(acme));
      const page = await admin.get(`/setup/o/acme/data/leads/${created.json.id}`);
      assert.match(page.text, /Message from \+1 555 010 7001 through sms /);
    });

    test('the signature covers the raw bytes', async () => {
      const raw = '{ "messages" : [ ] }\n';
      assert.equal((await post(raw)).status, 200);
      const before = (await inboxOf(instance(), sms)).length;
      const forged = JSON.stringify(message('forged'));
      for (const signature of [hmacHex(sms.secret, raw), hmacHex('another secret', forged), ''])
        assert.equal((await post(forged, { 'x-gateway-signature': signature })).status, 401);
      assert.equal((await post(forged, { 'content-type': 'text/plain' })).status, 400);
      assert.equal((await post('{')).status, 400);
      assert.equal((await post('x'.repeat(1024 * 1024 + 1))).status, 413);
      assert.equal((await post(forged, {}, `${sms.path}x`)).status, 404);
      assert.equal((await instance().call(`GET ${sms.path}`)).status, 405);
      assert.equal((await inboxOf(instance(), sms)).length, before);
    });

    test('a disabled integration responds with 404', async () => {
      const other = await integrate(instance(), acme, 'sms');
      const raw = JSON.stringify(message('disabled'));
      const headers = { 'x-gateway-signature': hmacHex(other.secret, raw) };
      assert.equal((await post(raw, headers, other.path)).status, 200);
      const tables = tablesOf(instance().database);
      await setIntegrationEnabled(tables, command(instance()), acme.id, other.id, false);
      assert.equal((await post(raw, headers, other.path)).status, 404);
    });

    test('an event that cannot be processed becomes a dead letter, and can be replayed', async () => {
      const database = instance().database;
      await deliver({ messages: [{ id: 'in-dead', from: '+15550107001' }] });
      await settled(sms);
      const dead = (await inboxOf(instance(), sms)).find(({ event_id }) => event_id === 'in-dead');
      assert.deepEqual([dead?.status, dead?.error], ['dead', 'the message has no sender or text']);
      const replayed = tablesOf(database);
      await replayed
        .updateTable('crm_inbox')
        .set({ payload: JSON.stringify({ message: { id: 'in-dead', from: '3', text: 'Repaired' } }) })
        .where('id', '=', String(dead?.id))
        .execute();
      await replayItem(replayed, inboxQueue, command(instance()), acme.id, String(dead?.id));
      // Any delivery wakes the worker.
      await deliver(message('in-wake'));
      await until(
        async () => (await received(sms)).some(({ provider_id }) => provider_id === 'in-dead'),
        'replay the event',
      );
    });

    test('administrators add integrations in the admin UI, with the terms of the provider', async () => {
      const gamma = await instance().organization('gamma');
      const admin = await signIn(instance(), administratorOf(gamma));
      const path = '/setup/o/gamma/integrations';
      assert.match((await admin.get(`${path}/add`)).text, />SMS gateway</);
      const form = `${path}/add?provider=sms`;
      const { text } = await admin.get(form);
      for (const term of ['Signing key', 'API token']) assert.ok(text.includes(term), term);
      const fields = { name: 'Front desk', secret: ' typed signing key\n', token: ' typed token\n' };
      const added = await admin.submit(form, `${path}/add`, fields);
      assert.ok(added.status < 400, String(added.status));
      assert.match(added.text, /You can look up the URL again later/);
      assert.doesNotMatch(added.text, /verify-token/, 'the channel has no handshake');
      const list = (await admin.get(path)).text;
      assert.match(list, /Front desk[\s\S]*SMS gateway/);
      const id = /integration\?id(?:=|&#x3D;)(\d+)/.exec(list)?.[1] ?? assert.fail(list);
      const sealed = sealing(instanceSecrets(instance().config));
      const stored = await openIntegration(tablesOf(instance().database), sealed, {
        organization: gamma.id,
        id,
      });
      assert.deepEqual([stored?.secret, stored?.token], ['typed signing key', 'typed token']);
      for (const [q, isFound] of [
        ['desk', true],
        ['gateway', true],
        ['pigeon', false],
      ] as const)
        assert.equal((await admin.get(`${path}?q=${q}`)).text.includes('Front desk'), isFound, q);
    });

    test('deliveries and integrations have the label of the channel', async () => {
      const { config, database } = instance();
      const queue = labeledInbox(channelsOf(config));
      const [item] = await listRows(tablesOf(database), itemRows(queue), acme.id, { limit: 1 });
      assert.equal(item?.ownerName, 'sms (SMS gateway)');
    });

    test('messages are sent through the integration, and delivery reports change their status', async () => {
      gateway.sent.length = 0;
      const answer = await book();
      assert.deepEqual([answer.status, answer.json], [200, { ok: true, message_id: 'out-1' }]);
      assert.deepEqual(gateway.sent, [
        {
          path: '/messages',
          authorization: `Bearer ${sms.token}`,
          body: { to: '+15550107001', text: 'See you at 9' },
        },
      ]);
      assert.deepEqual(await outgoing(), { status: 'sent', provider_id: 'out-1', error: null });
      await deliver({ reports: [{ id: 'out-1', status: 'delivered' }] });
      await until(async () => (await outgoing())?.status === 'delivered', 'process the report');
    });

    test('messages are sent through the oldest enabled integration', async () => {
      const tables = tablesOf(instance().database);
      const actor = command(instance());
      const newer = await integrate(instance(), acme, 'sms');
      const usedToken = async () => {
        assert.equal((await book()).status, 200);
        return gateway.sent.at(-1)?.authorization?.replace('Bearer ', '');
      };
      assert.equal(await usedToken(), sms.token);
      await setIntegrationEnabled(tables, actor, acme.id, sms.id, false);
      assert.notEqual(await usedToken(), sms.token);
      await setIntegrationEnabled(tables, actor, acme.id, sms.id, true);
      assert.equal(await usedToken(), sms.token);
      await removeIntegration(tables, actor, acme.id, newer.id);
    });

    test('a message that the gateway or the channel rejects is stored with the reason', async () => {
      gateway.answer(500);
      const reasons: string[] = [];
      for (const body of [{}, { to: 'Ada' }]) {
        const answer = await book(body);
        assert.deepEqual([answer.status, answer.json.code], [502, 'send_failed']);
        const { status, error } = (await outgoing()) ?? assert.fail();
        assert.equal(status, 'failed');
        reasons.push(error ?? '');
      }
      gateway.answer(200);
      assert.deepEqual(reasons, [
        'the gateway responded with 500',
        'the recipient is not a phone number in international format',
      ]);
    });

    test('the partners page and the booking form report a missing integration', async () => {
      const tables = tablesOf(instance().database);
      const problem = async () =>
        (await partnerStatus(tables, await readSettings(instance().config)))
          .find(({ name }) => name === 'booking_forms_whatsapp')
          ?.problem?.('en');
      assert.equal(await problem(), undefined);
      const turn = (isOn: boolean) =>
        setIntegrationEnabled(tables, command(instance()), acme.id, sms.id, isOn);
      await turn(false);
      await integrate(instance(), acme, 'telegram');
      assert.equal(await problem(), '"acme" has no enabled integration with sms');
      assert.equal((await book()).status, 502);
      assert.equal((await outgoing())?.error, 'the organization has no enabled integration with SMS gateway');
      await turn(true);
      assert.equal((await book()).status, 200);
    });

    test('secrets are encrypted, and no log contains them', async () => {
      const text = await dump(instance());
      for (const hidden of [sms.secret, sms.token, sms.verifyToken]) assert.ok(!text.includes(hidden));
    });

    test('doctor reports integrations whose module was removed', async () => {
      const { config, database } = instance();
      assert.deepEqual(await unknownChannels.run({ config, database }), []);
      const findings = await unknownChannels.run({ config: { modules }, database });
      assert.match(
        findings[0]?.message ?? '',
        /^integration \d+, "sms", needs the channel "sms", which no module adds/,
      );
      // The other integrations are disabled, which another check reports.
      const enabled = await tablesOf(database)
        .selectFrom('crm_integrations')
        .select('id')
        .where('provider', '=', 'sms')
        .where('enabled', '=', true)
        .orderBy('id')
        .execute();
      assert.deepEqual(
        findings.map(({ message }) => /^integration (\d+),/.exec(message)?.[1]),
        enabled.map(({ id }) => String(id)),
      );
    });

    test('deliveries can be simulated', async () => {
      const { config, database, resources, url } = instance();
      const access = {
        database,
        tables: tablesOf(database),
        resources,
        sealed: sealing(instanceSecrets(config)),
      };
      const input = { channels: channelsOf(config), org: 'acme' };
      const current = await readSettings(config);
      const { script, path, secret, countStored } = await prepareSimulation('sms', input, current, access);
      const target = { url: url + path, publicUrl: url + path, secret };
      const { results, eventIds } = await simulate(script, target, {
        steps: ['good', 'duplicate', 'large', 'bad-signature'],
        burst: 1,
      });
      assert.deepEqual(
        results.map(({ answers }) => answers),
        [{ 200: 1 }, { 200: 2 }, { 200: 1 }, { 401: 1 }],
      );
      await settled(sms);
      assert.deepEqual(await countStored(access, eventIds), { done: 2 });
      // The IDs of events are unique only within an integration.
      await sql`insert into crm_inbox (organization_id, integration_id, event_id, payload, status, done_at)
        select organization_id, id, 'many ' || n, '{}', 'done', now()
        from crm_integrations, generate_series(1, 1001) n`.execute(access.tables);
      const many = Array.from({ length: 1001 }, (_, index) => `many ${index + 1}`);
      assert.deepEqual(await countStored(access, many), { done: 1001 });
      await assert.rejects(prepareSimulation('faulty', input, current, access), /cannot be simulated/);
    });

    describe('a module that fails', () => {
      let beta: Organization;
      let broken: Added;
      before(async () => {
        Object.assign(globalThis, { isChannelFixed: false });
        beta = await instance().organization('beta');
        broken = await integrate(instance(), beta, 'faulty');
      });
      const post = (body: string, key = broken.secret, path = broken.path) =>
        instance().call(`POST ${path}`, { body, headers: { 'content-type': 'text/plain', 'x-key': key } });

      test('rejects deliveries unless verify returns true', async () => {
        assert.equal((await post('a', 'wrong')).status, 401);
        assert.equal((await post('a')).status, 200);
        const object = await integrate(instance(), beta, 'faulty-object');
        assert.equal((await post('a', object.secret, object.path)).status, 401);
      });

      test('cannot send, and the reason contains no details', async () => {
        const { app, config, database } = instance();
        const message = { to: '+15550107001', message: 'Hello', name: '', template: undefined };
        const lines = await logged(() =>
          assert.rejects(send(app.webhooks, channelsOf(config), beta.id, message), { code: 'send_failed' }),
        );
        assert.equal(lines.find(({ module }) => module === 'faulty')?.place, 'send');
        const rows = await tablesOf(database)
          .selectFrom('crm_messages')
          .select(['status', 'error'])
          .where('organization_id', '=', beta.id)
          .execute();
        assert.deepEqual(rows, [{ status: 'failed', error: 'the module faulty failed: TypeError' }]);
      });

      test('that takes too long, or returns no ID of a sent message, cannot send', async () => {
        const { app, config, database } = instance();
        const integration = await openIntegration(tablesOf(database), sealing(instanceSecrets(config)), {
          organization: acme.id,
          id: sms.id,
        });
        assert.ok(integration);
        const controller = new AbortController();
        const reasonOf = async (send: NonNullable<ModuleChannel<object>['send']>) => {
          const channel = moduleChannel(
            'silent',
            {
              ...{ label: 'Silent', secretLabel: 'Key', secretHelp: 'Choose a key.' },
              ...{ accepts: /^text/, bodyLimit: 1000, reply: { type: 'text/plain', body: 'ok' } },
              ...{ verify: () => true, events: () => [], process: async () => {}, send },
            },
            () => ({}),
          );
          const context = { webhooks: app.webhooks, integration, signal: controller.signal };
          const failure = await channel
            .send?.({ to: '1', text: 'x' }, context)
            .catch((cause: unknown) => cause);
          assert.ok(failure instanceof RetryableError, String(failure));
          return failure.message;
        };
        // The services of the engine are private.
        assert.equal(
          await reasonOf(async (_message, context) => ('webhooks' in context ? 'sent' : '')),
          'the module silent failed: Error',
        );
        assert.equal(
          await reasonOf(() => new Promise(() => setImmediate(() => controller.abort()))),
          'the module silent took too long',
        );
      });

      test('an event that the database cannot store becomes a dead letter at its first attempt', async () => {
        const text = 'a text that cannot be stored';
        const item = async () =>
          (await inboxOf(instance(), broken)).find(({ event_id }) => event_id === text);
        const lines = await logged(async () => {
          assert.equal((await post(text)).status, 200);
          await until(async () => ((await item())?.error ?? '') !== '', 'fail');
        });
        const dead = await item();
        assert.deepEqual([dead?.status, Number(dead?.attempts)], ['dead', 1], dead?.error);
        const logEntry = lines.find(({ integration }) => integration === broken.id);
        assert.deepEqual([logEntry?.item, logEntry?.given_up], [dead?.id, true]);
      });

      test('responds with 400 to a body that is not JSON, and with 500 to an event without an ID or data', async () => {
        assert.equal((await post('syntax')).status, 400);
        for (const text of ['nameless', 'dataless']) {
          const lines = await logged(async () => assert.equal((await post(text)).status, 500));
          const { stack } = lines.find(({ status }) => status === 500) ?? {};
          assert.match(String(stack), /^Object\.events .*\/module-channel\.ts/, text);
        }
      });

      test('is called again after an error, which is logged, and receives its variables', async () => {
        const stateOf = async () =>
          (await inboxOf(instance(), broken)).find(({ event_id }) => event_id === 'type error');
        const lines = await logged(async () => {
          assert.equal((await post('type error')).status, 200);
          await until(async () => (await stateOf())?.error !== '', 'fail');
        });
        const warning = lines.find(({ module }) => module === 'faulty');
        assert.deepEqual([warning?.place, warning?.level], ['process', 40]);
        const { item, ...logEntry } = lines.find(({ integration }) => integration === broken.id) ?? {};
        assert.equal(item, (await stateOf())?.id);
        const { organization, attempts, given_up, msg } = logEntry;
        assert.deepEqual(
          [organization, attempts, given_up, msg],
          [beta.id, 1, false, 'the module faulty failed: TypeError'],
        );
        const failed = await stateOf();
        assert.deepEqual([failed?.status, failed?.error], ['waiting', 'the module faulty failed: TypeError']);
        Object.assign(globalThis, { isChannelFixed: true });
        await settled(broken);
        assert.deepEqual(
          (await received(broken)).map(({ sender, body }) => [sender, body]),
          [
            ['from the environment', 'a'],
            ['from the environment', 'type error'],
          ],
        );
      });
    });
  },
  { environment: { ...environment, CRM_CONFIG: file.path, FAULTY_SENDER: 'from the environment' } },
);

describe('messaging in config.yaml', () => {
  const read = async (messaging: object) => {
    return readSettings(
      await loadConfig({ ...environment, ...settingsFile({ ...settings, messaging }).environment }),
    );
  };

  test('names channels that can send messages', async () => {
    await assert.rejects(read({ acme: { sender: 'smss' } }), { message: /sender must be one of .*sms/ });
    await assert.rejects(read({ acme: { sender: 'sms', access_token: 'x' } }), {
      message: /"access_token" is not a setting of the sender sms/,
    });
    assert.deepEqual((await read({ acme: { sender: 'sms' } })).messaging, { acme: { sender: 'sms' } });
  });
});
