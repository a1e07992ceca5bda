// Clients that disconnect at each stage of a request, on each kind of route: nothing is lost or logged as a failure.
import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { type Organization, onBothDrivers } from '../support/instance.ts';
import { logged } from '../support/logged.ts';
import { integrate, settingsFile } from '../support/partners.ts';
import { until } from '../support/process.ts';
import { opened } from '../support/wire.ts';

const inboundSecret = 'the secret of inbound leads';
const { environment } = settingsFile({ partners: { inbound_leads: { secrets: ['${INBOUND}'] } } });
const pino = { error: 50 };

onBothDrivers(
  'a client that goes away',
  (instance) => {
    let acme: Organization;
    let channel = '';
    before(async () => {
      acme = await instance().organization('acme');
      channel = (await integrate(instance(), acme, 'telegram')).path;
    });
    const json = 'application/json';
    const form = 'application/x-www-form-urlencoded';
    const routes: readonly [name: string, line: () => string, headers: () => readonly string[]][] = [
      ['a record', () => 'POST /api/v1/leads', () => [`Authorization: Bearer ${acme.key}`, json]],
      ['a login', () => 'POST /auth/login', () => [json]],
      ['a form', () => 'POST /setup/login', () => [form]],
      ['a partner', () => 'POST /webhooks/inbound-leads', () => [`X-Inbound-Secret: ${inboundSecret}`, json]],
      ['a channel', () => `POST ${channel}`, () => [json]],
    ];
    const half = '{"last_name":"half';
    const ways = {
      'in a body of known length': [`Content-Length: ${half.length + 1000}`, half],
      'in a body of chunks': ['Transfer-Encoding: chunked', `${half.length.toString(16)}\r\n${half}\r\n`],
      'before the body': ['Content-Length: 1000', ''],
    } as const;
    for (const [name, line, fields] of routes) {
      describe(name, () => {
        for (const [when, [framing, bytes]] of Object.entries(ways)) {
          test(`${when}: logs no error`, async () => {
            const [type = '', ...more] = [...fields()].reverse();
            const lines = await logged(async () => {
              const requests = new Set<string>();
              const socket = await opened(instance().url);
              const arrived = new Promise<void>((resolve) => {
                instance().app.server.once('request', (request) => {
                  requests.add(request.url ?? '');
                  request.once('close', () => setTimeout(resolve, 20));
                });
              });
              socket.send(
                [
                  `${line()} HTTP/1.1`,
                  'Host: crm',
                  `Content-Type: ${type}`,
                  ...more,
                  framing,
                  '',
                  bytes,
                ].join('\r\n'),
              );
              await until(async () => requests.size === 1, 'the request to arrive');
              socket.close();
              await arrived;
              // The next request on another connection is served.
              const answer = await instance().call('GET /api/v1/leads', { key: acme.key });
              assert.equal(answer.status, 200);
            });
            const errors = lines.filter(({ level }) => Number(level) >= pino.error);
            assert.deepEqual(errors, []);
          });
        }
      });
    }
  },
  { environment: { ...environment, INBOUND: inboundSecret, LOG_LEVEL: 'info' } },
);
