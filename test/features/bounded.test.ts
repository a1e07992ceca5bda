// What a stranger can make the service do is bounded: every route of the router, with hostile heads and bodies of up to
// its own limit, never stands still for longer than a tenth of a second and never fails.
import assert from 'node:assert/strict';
import { after, afterEach, before, describe, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { tablesOf } from '../../engine/tables/handle.ts';
import { publicUrl } from '../support/channels.ts';
import { type HostileBody, hostileBodies } from '../support/hostile/bodies.ts';
import { type Client, type Got, startClient } from '../support/hostile/client.ts';
import { type Route, routesOf } from '../support/hostile/routes.ts';
import { longestStall } from '../support/hostile/stalls.ts';
import { assertKnown, partnerSecrets, type Target, targetsOf } from '../support/hostile/targets.ts';
import { heads, queries } from '../support/hostile/values.ts';
import { drivers, type Instance, startInstance } from '../support/instance.ts';
import { settingsFile } from '../support/partners.ts';
import { entries, organization, variables } from '../support/payments.ts';
import { startProvider } from '../support/providers.ts';
import { openScreens } from '../support/screens.ts';

/** How long the event loop may stand still, in milliseconds. */
const mostMs = 100;
/**
 * A stall is tried again so often, later each time; the shortest counts: the collector of garbage runs when it likes,
 * and the same work takes a core twice the time while another process uses its caches. A slow parser is slow each time.
 */
const tries = 10;
const bodiless = ['GET', 'HEAD'];
/** Answers that only come when credentials and signatures are right, so that the bodies are read. */
const mustReach = [
  'POST a record 201',
  'POST a record 400',
  'PUT a record by id 200',
  'POST a batch 200',
  'PATCH a batch 200',
  'DELETE a batch 200',
  'POST /auth/login 401',
  'POST /webhooks/inbound-leads 201',
  'POST /api/booking-forms/whatsapp 400',
  'a payment 200',
  'POST a channel that takes 4194304 200',
  'POST a channel that takes 1048576 200',
  'POST a channel that takes 262144 200',
  'a form 303',
  'a form 400',
];
/** Bytes of a body where another route of the same kind gets it at full size. */
const smaller = 64 * 1024;

const graph = await startProvider();
after(() => graph.close());
const { environment } = settingsFile(
  {
    public_url: publicUrl,
    graph: { base_url: graph.url, timeout_ms: 1000 },
    partners: {
      booking_forms_whatsapp: { secrets: ['${BOOKING_FORMS_WHATSAPP_TOKEN}'], organization: 'acme' },
      payments: entries,
    },
    messaging: { acme: { sender: 'log' } },
  },
  { ...variables, ...partnerSecrets },
);

for (const driver of drivers) {
  describe(`what a stranger sends (${driver})`, () => {
    let instance: Instance;
    let routes: Route[];
    const targets: Target[] = [];
    let client: Client;
    /** What did not hold, all of it. */
    const problems: string[] = [];
    afterEach(() => assert.deepEqual(problems.splice(0), []));
    before(async () => {
      client = startClient();
      const found = await routesOf(() => startInstance(driver, { environment }));
      instance = found.built;
      routes = found.routes(instance.app);
      const screens = await openScreens(instance);
      await instance.organization(organization);
      const world = { instance, screens, acme: screens.acme, clerk: await screens.administrator() };
      for (const route of routes) targets.push(...(await targetsOf(world, route)));
    });
    after(async () => {
      await client.close();
      await instance.close();
    });

    /** Sends a request until it stalls the loop no longer than it may, or has done so each time. */
    async function exchange(name: string, send: () => Promise<Got>): Promise<Got> {
      let got: Got | undefined;
      let shortest = Number.POSITIVE_INFINITY;
      // The embedded database works on this thread too: there the time is its own.
      const measured = driver === 'postgresql';
      for (let attempt = 0; attempt < (measured ? tries : 1) && shortest > mostMs; attempt++) {
        if (attempt > 0) await pause(attempt * 20);
        const stall = await longestStall(async () => {
          got = await send();
        });
        shortest = Math.min(shortest, stall);
      }
      assert.ok(got);
      if (measured && shortest > mostMs) {
        problems.push(`${name}: the loop stood still for ${Math.round(shortest)} ms`);
      }
      const { status, headers, text, failed = '' } = got;
      if (status >= 500 && status !== 501 && status !== 503) problems.push(`${name}: ${status} ${text}`);
      if (status === 0 && !/ECONNRESET|EPIPE/.test(failed)) problems.push(`${name}: ${failed}`);
      if (status > 0 && headers['x-content-type-options'] !== 'nosniff') problems.push(`${name}: no nosniff`);
      return got;
    }

    const sendTo = (
      { method, headers }: Target,
      path: string,
      bytes: Uint8Array | undefined,
      more: Readonly<Record<string, string>>,
    ) => {
      const request = { url: instance.url + path, method, body: bytes };
      return client.send({ ...request, headers: { ...headers(bytes ?? Buffer.alloc(0), path), ...more } });
    };

    test('the router has the routes of every part', () => {
      for (const part of ['/api/v1/', '/auth/', '/setup/', '/webhooks/', '/docs', '/api/booking-forms/']) {
        assert.ok(
          routes.some(({ url }) => url.startsWith(part)),
          part,
        );
      }
      assertKnown(targets);
    });

    const headsAndQueries = async () => {
      for (const [place, target] of targets.entries()) {
        const name = `${target.method} ${target.route.url}`;
        const body = bodiless.includes(target.method) ? undefined : Buffer.from('{}');
        const send = (query: string, fields: Readonly<Record<string, string>>) => () =>
          sendTo(target, target.path + query, body, fields);
        const all = [
          ...Object.entries(heads).map(([head, fields]) => [head, send('', fields)] as const),
          ...Object.entries(queries).map(([query, text]) => [query, send(`?${text}`, {})] as const),
        ];
        // What reads heads is the same everywhere: by turns.
        for (const [index, [what, each]] of all.entries()) {
          if ((index + place) % 5 === 0) await exchange(`${name}, ${what}`, each);
        }
      }
    };
    // What reads heads is the same on both.
    if (driver === 'postgresql') test('hostile heads and queries', headsAndQueries);

    test('hostile bodies', async () => {
      const taking = targets.filter(({ method }) => !bodiless.includes(method));
      const reached = new Set<string>();
      for (const alike of Map.groupBy(taking, ({ kind }) => kind).values()) {
        for (const [place, target] of alike.entries()) {
          for (const [index, body] of hostileBodies(target.expected).entries()) {
            const full = index % alike.length === place;
            // What differs between drivers is what the database refuses, whichever route it comes from.
            if (driver === 'embedded' && !full) continue;
            // What is alike takes the small ones in turns.
            if (!full && (index + place) % 6 > 0) continue;
            const limit = target.route.bodyLimit;
            const size = full && driver === 'postgresql' ? limit : Math.min(limit, smaller);
            const status = await sendBody(target, body, size);
            reached.add(`${target.kind} ${status}`);
            // Refused before the body was read: no other body is read either.
            if (status === 405) break;
          }
        }
      }
      for (const way of mustReach) assert.ok(reached.has(way), `${way}, not ${[...reached].join(', ')}`);
    });

    async function sendBody(
      target: Target,
      { name, type, bytes }: HostileBody,
      size: number,
    ): Promise<number> {
      const raw = bytes(size);
      const what = `${target.method} ${target.route.url}, ${name} (${raw.length} bytes)`;
      const got = await exchange(what, () => sendTo(target, target.path, raw, { 'content-type': type }));
      return got.status;
    }

    test('what was stored is processed, or refused once: nothing of it fails again and again', async () => {
      const rows = await tablesOf(instance.database).selectFrom('crm_inbox').select(['error']).execute();
      assert.ok(rows.length > 0);
      assert.deepEqual(
        rows.filter(({ error }) => error.startsWith('failed')),
        [],
      );
    });
  });
}
