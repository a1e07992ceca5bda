// Messages for booking forms: authentication, validation, requests to the sender, and failures.
import assert from 'node:assert/strict';
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { after, before, beforeEach, describe, test } from 'node:test';
import { tablesOf } from '../../engine/tables/handle.ts';
import { type Organization, onBothDrivers } from '../support/instance.ts';
import { logged } from '../support/logged.ts';
import { settingsFile } from '../support/partners.ts';
import { type Node, secondNode } from '../support/people.ts';
import { type Behaviour, startProvider } from '../support/providers.ts';
import { assertErrorShape } from '../support/scenario.ts';

const request = 'POST /api/booking-forms/whatsapp';
const token = 'the-booking-token';
const older = 'the-older-booking-token';
const accessToken = 'the-access-token';
const provider = await startProvider();
after(() => provider.close());

const settings = {
  partners: { booking_forms_whatsapp: { secrets: ['${TOKEN}', '${OLDER}'], organization: 'clinic' } },
  messaging: {
    clinic: {
      sender: 'whatsapp_cloud',
      phone_number_id: '1055501',
      access_token: '${ACCESS}',
      templates: { booked: { name: 'booking_confirmed', language: 'en_US' } },
    },
  },
  graph: { base_url: `${provider.url}/`, version: 'v23.0', timeout_ms: 20_000 },
};
/** Settings for a provider that does not respond. */
const impatient = { graph: { ...settings.graph, timeout_ms: 1000 } };
const variables = { TOKEN: token, OLDER: older, ACCESS: accessToken };
const { environment } = settingsFile(settings, variables);
const good = { to: '+49 (155) 501-00', message: 'See you at 9' };

onBothDrivers(
  'messaging send',
  (instance) => {
    let clinic: Organization;
    const nodes: Node[] = [];
    /** Starts a node with other settings. */
    const node = async (changed: object, change: Record<string, string> = {}, logLevel = 'fatal') => {
      const file = settingsFile({ ...settings, ...changed });
      const instanceNode = await secondNode(instance(), {
        settingsFile: file.path,
        environment: { ...variables, ...change },
        logLevel,
        // Ignore warnings about a busy machine.
        logSlowMs: 0,
      });
      nodes.push(instanceNode);
      return instanceNode;
    };
    const partner = (changed: object) => ({
      partners: { booking_forms_whatsapp: { ...settings.partners.booking_forms_whatsapp, ...changed } },
    });
    before(async () => {
      await instance().organization('first');
      clinic = await instance().organization('clinic');
    });
    beforeEach(() => {
      provider.behave('fine');
      provider.requests.length = 0;
    });
    after(async () => {
      provider.behave('fine');
      for (const started of nodes) await started.close();
    });
    const post = (body: unknown, key = token, on: Pick<Node, 'call'> = instance()) =>
      on.call(request, { key, body });
    const messages = () =>
      tablesOf(instance().database)
        .selectFrom('crm_messages')
        .selectAll()
        .where('organization_id', '=', clinic.id)
        .orderBy('id', 'desc')
        .execute();

    test('not configured: 501 for every request', async () => {
      const off = [await node(partner({ secrets: [] })), await node({}, { TOKEN: ' ', OLDER: '' })];
      for (const each of off) {
        for (const body of [good, '{', {}]) assert.equal((await post(body, token, each)).status, 501);
        assert.equal((await each.call(request)).status, 501);
      }
    });

    test('with a valid token, the message is sent once and stored', async () => {
      for (const key of [token, older]) {
        provider.requests.length = 0;
        const answer = await post(good, key);
        assert.equal(answer.status, 200, answer.text);
        assert.deepEqual(Object.keys(answer.json), ['ok', 'message_id']);
        const [request, ...more] = provider.requests;
        assert.deepEqual(more, []);
        assert.equal(request?.path, '/v23.0/1055501/messages');
        assert.equal(request?.headers.authorization, `Bearer ${accessToken}`);
        assert.deepEqual(request?.body, {
          messaging_product: 'whatsapp',
          to: '+4915550100',
          type: 'text',
          text: { body: 'See you at 9' },
        });
        const [message] = await messages();
        assert.deepEqual(
          [message?.recipient, message?.body, message?.status, message?.provider_id, message?.error],
          [good.to, good.message, 'sent', answer.json.message_id, null],
        );
      }
    });

    const bad: readonly [string, () => Record<string, string>][] = [
      ['none', () => ({})],
      ['a wrong token', () => ({ authorization: 'Bearer wrong' })],
      ['an empty token', () => ({ authorization: 'Bearer ' })],
      ['a truncated token', () => ({ authorization: `Bearer ${token.slice(1)}` })],
      ['Basic', () => ({ authorization: `Basic ${token}` })],
      ['the header of another endpoint', () => ({ 'x-inbound-secret': token })],
      ["the organization's API key", () => ({ authorization: `Bearer ${clinic.key}` })],
      ["the sender's access token", () => ({ authorization: `Bearer ${accessToken}` })],
    ];
    for (const [name, headers] of bad) {
      test(`token: ${name} → 401 before the body is read`, async () => {
        for (const body of [good, '{', {}]) {
          const answer = await instance().call(request, { body, headers: headers() });
          assert.equal(answer.status, 401);
          assertErrorShape(answer);
        }
        assert.deepEqual(provider.requests, []);
      });
    }

    test('the token is not accepted by the API', async () => {
      assert.equal((await instance().call('GET /api/v1/leads', { key: token })).status, 401);
    });

    const refused: readonly [string, unknown, (readonly string[])?][] = [
      ['nothing', {}, ['to', 'message']],
      ['no recipient', { message: 'x' }, ['to']],
      ['no message', { to: '+4915550100' }, ['message']],
      ['blank values', { to: ' ', message: '\n' }, ['to', 'message']],
      ['nulls', { to: null, message: null }, ['to', 'message']],
      [
        'numbers',
        { to: 4915550100, message: 1, name: 2, template: 3 },
        ['to', 'message', 'name', 'template'],
      ],
      ['a recipient with a NUL character', { to: '\0', message: 'x' }, ['to']],
      ['an unknown template', { ...good, template: 'unknown' }, ['template']],
      ['a template called __proto__', { ...good, template: '__proto__' }, ['template']],
      ['a template with a path', { ...good, template: '../templates/confirmation' }, ['template']],
      ['a lone surrogate', '{"to":"+4915550100","message":"\\udc00"}', ['message']],
      ['invalid JSON', '{"to":'],
      ['an array', [good]],
    ];
    for (const [name, body, fields] of refused) {
      test(`body: ${name} → 400, nothing is sent or stored`, async () => {
        const before = (await messages()).length;
        const answer = await post(body);
        assert.equal(answer.status, 400, answer.text);
        assertErrorShape(answer);
        const wrong = answer.json.fields as { field: string }[] | undefined;
        assert.deepEqual(
          wrong?.map(({ field }) => field),
          fields,
        );
        assert.deepEqual(provider.requests, []);
        assert.equal((await messages()).length, before);
      });
    }

    test('an unknown organization → 404, after the body is validated', async () => {
      const lost = await node(partner({ organization: 'unknown' }));
      assert.equal((await post({}, token, lost)).status, 400);
      assert.equal((await post(good, token, lost)).status, 404);
      assert.deepEqual(provider.requests, []);
    });

    const sent: readonly [string, Record<string, string>, object][] = [
      [
        'template syntax in a message is not interpreted',
        { message: '{{name}} {{constructor}} {{#each x}}' },
        { text: { body: '{{name}} {{constructor}} {{#each x}}' } },
      ],
      [
        'special characters are not escaped',
        { message: `O'Neil & "Söhne" <b> 😀` },
        { text: { body: `O'Neil & "Söhne" <b> 😀` } },
      ],
      [
        'the longest text, whose length is counted in characters',
        { message: '😀'.repeat(4096) },
        { text: { body: '😀'.repeat(4096) } },
      ],
      [
        'our template',
        { name: "O'Neil & {{message}}", message: '<9>', template: 'confirmation' },
        { text: { body: "Hello O'Neil & {{message}},\n\n<9>" } },
      ],
      [
        'our template without a name',
        { message: 'nine', template: 'confirmation' },
        { text: { body: 'Hello,\n\nnine' } },
      ],
      [
        'blanks around the recipient are removed',
        { to: ' +4915550100\n', message: 'nine' },
        { to: '+4915550100', text: { body: 'nine' } },
      ],
      ['an empty template is ignored', { message: 'nine', template: '' }, { text: { body: 'nine' } }],
      [
        "a provider's template",
        { name: 'Ann', message: '{{1}}', template: 'booked' },
        {
          type: 'template',
          text: undefined,
          template: {
            name: 'booking_confirmed',
            language: { code: 'en_US' },
            components: [
              {
                type: 'body',
                parameters: [
                  { type: 'text', text: 'Ann' },
                  { type: 'text', text: '{{1}}' },
                ],
              },
            ],
          },
        },
      ],
    ];
    test("a provider's template without a name has only the message as a parameter", async () => {
      assert.equal((await post({ ...good, template: 'booked' })).status, 200);
      const [{ body } = assert.fail()] = provider.requests;
      const { template } = body as { readonly template: Record<string, unknown> };
      assert.deepEqual(template.components, [
        { type: 'body', parameters: [{ type: 'text', text: good.message }] },
      ]);
    });
    test("a provider's template precedes our template with the same name", async () => {
      const templates = { confirmation: { name: 'own_confirmation', language: 'de' } };
      const own = await node({ messaging: { clinic: { ...settings.messaging.clinic, templates } } });
      assert.equal((await post({ ...good, template: 'confirmation' }, token, own)).status, 200);
      const [{ body } = assert.fail()] = provider.requests;
      const { template } = body as { readonly template: Record<string, unknown> };
      assert.deepEqual([template.name, template.language], ['own_confirmation', { code: 'de' }]);
    });
    for (const [name, body, expected] of sent) {
      test(`sent: ${name}`, async () => {
        const answer = await post({ ...good, ...body });
        assert.equal(answer.status, 200, answer.text);
        const got = provider.requests[0]?.body as Record<string, unknown>;
        for (const [key, value] of Object.entries(expected)) assert.deepEqual(got[key], value);
        assert.equal((await messages())[0]?.body, body.message, 'stored unchanged');
      });
    }

    const failures: readonly [Behaviour, RegExp][] = [
      ['failing', /^WhatsApp responded with 500$/],
      ['slow', /^no response in time$/],
      ['huge', /^the response is too large$/],
      ['endless', /^the response is too large$/],
      ['redirect', /^WhatsApp responded with 307$/],
      ['closed', /^connection failed$/],
      ['reset', /^connection failed$/],
      ['no json', /^WhatsApp responded with 200$/],
      ['other json', /^WhatsApp responded with 200$/],
    ];
    describe('a failing provider → 502, called once, the reason is stored', () => {
      for (const [behaviour, reason] of failures) {
        test(behaviour, async () => {
          provider.behave(behaviour);
          // A slow provider holds its response back until the next behavior is set.
          const on = behaviour === 'slow' ? await node(impatient) : instance();
          const answer = await post({ ...good, message: `to one that is ${behaviour}` }, token, on);
          assert.equal(answer.status, 502, answer.text);
          assertErrorShape(answer);
          assert.doesNotMatch(answer.text, /SECRET|access-token|127\.0\.0\.1/);
          assert.equal(provider.requests.length, 1, 'called once');
          const [message] = await messages();
          assert.deepEqual(
            [message?.body, message?.status, message?.provider_id],
            [`to one that is ${behaviour}`, 'failed', null],
          );
          assert.match(message?.error ?? '', reason);
        });
      }

      test('refused connections, each retried once, then available again', async () => {
        await provider.shut();
        // Node publishes each failure to connect that fetch encounters.
        let refused = 0;
        const count = (message: unknown) => {
          const { connectParams } = message as { connectParams: { port: string } };
          if (connectParams.port === new URL(provider.url).port) refused++;
        };
        subscribe('undici:client:connectError', count);
        try {
          const answer = await post({ ...good, message: 'not delivered' });
          assert.equal(answer.status, 502, answer.text);
          assert.equal(refused, 2);
          const [message] = await messages();
          assert.deepEqual(
            [message?.body, message?.status, message?.error],
            ['not delivered', 'failed', 'connection failed'],
          );
        } finally {
          unsubscribe('undici:client:connectError', count);
          await provider.open();
        }
        assert.equal((await post(good)).status, 200);
      });

      const unsent: readonly [string, () => Promise<Node>, Record<string, string>, RegExp][] = [
        ['no sender', () => node({ messaging: {} }), {}, /no sender is configured/],
        ['no access token', () => node({}, { ACCESS: '' }), {}, /access token is not set/],
        ['an overlong text', () => node({}), { message: 'x'.repeat(4097) }, /longer than 4096/],
        ['a word as recipient', () => node({}), { to: 'everybody' }, /recipient is not a phone number/],
        ['a name with a number', () => node({}), { to: 'Ann 15550100' }, /recipient is not a phone/],
        ['a path as recipient', () => node({}), { to: '../../me' }, /recipient is not a phone number/],
        [
          'a header in the recipient',
          () => node({}),
          { to: '+4915550100\r\nX: y' },
          /recipient is not a phone/,
        ],
      ];
      for (const [name, startNode, body, reason] of unsent) {
        test(`${name}: the provider is not called`, async () => {
          assert.equal((await post({ ...good, ...body }, token, await startNode())).status, 502);
          assert.deepEqual(provider.requests, []);
          const [message] = await messages();
          assert.match(message?.error ?? '', reason);
          assert.equal(message?.recipient, body.to ?? good.to);
        });
      }
    });

    test('redirects are never followed', () => assert.deepEqual(provider.strayed, []));

    test('the log sender responds without sending', async () => {
      const logging = await node({ messaging: { clinic: { sender: 'log' } } });
      const answer = await post(good, token, logging);
      assert.equal(answer.status, 200, answer.text);
      assert.match(String(answer.json.message_id), /^log\./);
      assert.deepEqual(provider.requests, []);
      assert.equal((await messages())[0]?.provider_id, answer.json.message_id);
      assert.equal((await post({ ...good, to: 'Front desk' }, token, logging)).status, 200, 'any string');
      assert.equal((await messages())[0]?.recipient, 'Front desk');
    });

    const senders: Readonly<
      Record<string, [sender: object, behaviour: Behaviour, status: number, lines: number]>
    > = {
      'the log sender': [{ sender: 'log' }, 'fine', 200, 2],
      'a working sender': [settings.messaging.clinic, 'fine', 200, 0],
      'a rejected request': [settings.messaging.clinic, 'failing', 502, 2],
      'a provider that does not respond': [settings.messaging.clinic, 'slow', 502, 2],
    };
    for (const [name, [clinicSender, behaviour, status, count]] of Object.entries(senders)) {
      test(`${name}: recipient, text and secrets are not logged`, async () => {
        const changed = { messaging: { clinic: clinicSender }, ...(behaviour === 'slow' && impatient) };
        const logging = await node(changed, {}, 'trace');
        provider.behave(behaviour);
        const body = { to: '+4915550100777', message: 'a private text', name: 'Ann Private' };
        const lines = await logged(async () => {
          for (const more of [{}, { template: 'confirmation' }]) {
            assert.equal((await post({ ...body, ...more }, token, logging)).status, status);
          }
        });
        // On a busy machine, background work can log warnings.
        const isAboutMessage = ({ msg, request_id }: Record<string, unknown>) =>
          msg !== 'request' && (request_id !== undefined || /^message /.test(String(msg)));
        assert.equal(lines.filter(isAboutMessage).length, count);
        const text = JSON.stringify(lines);
        for (const hidden of ['15550100777', 'private', 'Private', token, accessToken]) {
          assert.ok(!text.includes(hidden), `${hidden} in ${text}`);
        }
      });
    }

    test('other methods → 405', async () => {
      const answer = await instance().call('GET /api/booking-forms/whatsapp', { key: token });
      assert.equal(answer.status, 405);
    });
  },
  { environment },
);
