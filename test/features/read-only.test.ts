// read_only in config.yaml: while it is true, no route in the router changes anything, but reads and logins
// still work.
import assert from 'node:assert/strict';
import { request } from 'node:http';
import { text } from 'node:stream/consumers';
import { after, before, describe, test } from 'node:test';
import { sql } from 'kysely';
import { tablesOf } from '../../engine/tables/handle.ts';
import { publicUrl } from '../support/channels.ts';
import { administratorOf, readable, signIn, type Visitor, visitor } from '../support/forms.ts';
import { type Route, routesOf } from '../support/hostile/routes.ts';
import { targetsOf } from '../support/hostile/targets.ts';
import { partnerSecrets } from '../support/hostile/world.ts';
import {
  type Answer,
  drivers,
  type Instance,
  type Organization,
  startInstance,
} from '../support/instance.ts';
import { delivered, integrate, settingsFile } from '../support/partners.ts';
import { entries, organization, variables } from '../support/payments.ts';
import { dump } from '../support/people.ts';
import { connected } from '../support/postgres.ts';
import { until } from '../support/process.ts';
import { untilWaiting } from '../support/uncommitted.ts';

const settings = {
  public_url: publicUrl,
  partners: {
    booking_forms_whatsapp: { secrets: ['${BOOKING_FORMS_WHATSAPP_TOKEN}'], organization: 'acme' },
    payments: entries,
  },
  messaging: { acme: { sender: 'log' } },
};
const file = settingsFile(settings, { ...variables, ...partnerSecrets });
/** Routes that start and end sessions, which are always allowed. */
const allowedRoutes = [
  ...['/auth/login', '/auth/logout', '/auth/logout-everywhere', '/auth/sessions/:id'],
  ...['/setup/login', '/setup/login/second-factor', '/setup/login/passkey', '/setup/logout'],
  ...['/setup/me/end-session', '/setup/me/logout-everywhere'],
  // Its tools check the mode themselves.
  '/mcp',
];
/** Tables that reads and logins write to. */
const bookkeeping = ['crm_sessions', 'crm_activity', 'crm_attempts', 'crm_known_devices', 'crm_name_uses'];

/** A request to a route, with credentials that allow its body to be read. */
type Write = readonly [request: string, send: () => Promise<Answer>];

for (const driver of drivers) {
  describe(`read-only (${driver})`, () => {
    let instance: Instance;
    let acme: Organization;
    let admin: Visitor;
    let routes: readonly Route[];
    let key: string;
    const writes: Write[] = [];
    const turn = async (isReadOnly: boolean) => {
      file.replace({ ...settings, read_only: isReadOnly });
      await until(() => instance.app.isReadOnly?.() === isReadOnly, 'take the settings');
    };
    const addressOf = ({ url }: Route) => url.replace(':org', 'acme').replace(/:\w+|\*/g, '1');
    const writesTo = async (method: string, route: Route): Promise<Write[]> => {
      const { call } = instance;
      const path = addressOf(route);
      const request = `${method} ${path}`;
      const json = 'application/json';
      if (route.url.startsWith('/setup')) return [[request, () => admin.post(path, {})]];
      if (/^\/(?:api\/v1|events)\b/.test(route.url))
        return [[request, () => call(request, { key, body: {}, headers: { prefer: 'bulk' } })]];
      const targets = await targetsOf(
        { instance, acme, tools: [] as const } as unknown as Parameters<typeof targetsOf>[0],
        route,
      );
      return targets.map(({ path, headers, expected: { type, shape } }) => {
        const body =
          type === json
            ? JSON.stringify(shape)
            : String(new URLSearchParams(shape as Record<string, string>));
        const sent = { body, headers: { ...headers(Buffer.from(body), path), 'content-type': type } };
        return [path, () => call(`${method} ${path}`, sent)];
      });
    };
    before(async () => {
      const router = await routesOf(() => startInstance(driver, { environment: file.environment }));
      instance = router.built;
      routes = router.routes(instance.app);
      acme = await instance.organization('acme');
      await instance.organization(organization);
      const all = ['create', 'read', 'update', 'delete'] as const;
      key = await acme.keyWith([
        { object: '*', actions: all },
        { object: 'events', actions: all },
      ]);
      admin = await signIn(instance, administratorOf(acme));
      for (const route of routes) {
        const [method = '', ...others] = route.methods;
        // Routes for all other methods of a path return 405.
        if (['GET', 'HEAD', 'OPTIONS'].includes(method) || others.length > 0) continue;
        if (method === 'QUERY' || route.url.endsWith('/query')) continue;
        if (!allowedRoutes.includes(route.url)) writes.push(...(await writesTo(method, route)));
      }
    });
    after(() => instance.close());
    const storedTables = async () =>
      (await dump(instance))
        .split(/^(?=\w+:$)/m)
        .filter((table) => !bookkeeping.includes(table.split(':')[0] ?? ''));
    const waits = async () => {
      const { id } = await integrate(instance, acme, 'telegram');
      await delivered(instance, acme.id, id, { event: 'waits', status: 'waiting' });
      await sql`update crm_inbox set next_at = now()`.execute(tablesOf(instance.database));
    };

    test('every writing route returns 503 with Retry-After and changes nothing', async () => {
      await turn(true);
      await waits();
      const before = await storedTables();
      assert.ok(writes.length > 60, `${writes.length} routes that write`);
      for (const [request, send] of writes) {
        const response = await send();
        assert.equal(response.status, 503, `${request}: ${response.status} ${response.text.slice(0, 200)}`);
        assert.equal(response.headers.get('retry-after'), '60', request);
        if (request.includes(' /setup'))
          assert.match(readable(response.text), /read-only during maintenance/);
        else assert.equal(response.json.code, 'read_only', request);
      }
      assert.deepEqual(await storedTables(), before);
    });

    test('reads, logins and logouts still work, and pages show the state', async () => {
      const gets = routes.filter(({ methods, url }) => methods.includes('GET') && url.startsWith('/setup'));
      for (const route of gets) {
        const { status } = await admin.get(addressOf(route));
        assert.ok(status < 500, `${route.url}: ${status}`);
      }
      const { key } = acme;
      assert.equal((await instance.call('GET /api/v1/leads', { key })).status, 200);
      for (const query of ['POST /api/v1/leads/query', 'QUERY /api/v1/leads'])
        assert.equal((await instance.call(query, { key, body: {} })).status, 200);
      assert.equal((await instance.call('GET /api/v1/leads', { key: 'crm_wrong' })).status, 401);
      assert.equal((await instance.call('POST /api/v1/leads', { key: 'crm_wrong', body: {} })).status, 401);
      assert.equal((await instance.call('DELETE /api/v1/leads', { key })).status, 405);
      const login = await instance.call('POST /auth/login', { body: administratorOf(acme) });
      assert.equal(login.status, 200);
      const home = await admin.get('/setup/o/acme');
      assert.match(
        readable(home.text),
        /This instance is read-only during maintenance\. Changes are disabled\./,
      );
      assert.equal((await admin.submit('/setup/o/acme', '/setup/logout')).status, 303);
      assert.equal((await visitor(instance).get('/setup/login')).status, 200);
      for (const path of allowedRoutes.filter((each) => each.startsWith('/setup'))) {
        assert.notEqual((await visitor(instance).post(path, {})).status, 503, path);
      }
    });

    test('waiting events are processed afterwards', async () => {
      const waiting = tablesOf(instance.database).selectFrom('crm_inbox').select(['attempts', 'status']);
      const rows = () => waiting.where('event_id', '=', 'waits').executeTakeFirstOrThrow();
      assert.deepEqual(await rows(), { attempts: 1, status: 'waiting' });
      await turn(false);
      await until(async () => (await rows()).attempts > 1, 'process the waiting event');
      const { status } = await instance.call('POST /api/v1/leads', {
        key: acme.key,
        body: { last_name: 'After' },
      });
      assert.equal(status, 201);
    });

    // The embedded database runs one transaction at a time.
    if (driver === 'postgresql')
      test('a search for a person stops, and continues afterwards', async () => {
        const browser = await signIn(instance, administratorOf(acme));
        const page = '/setup/o/acme/forgetting/find';
        const search = () => browser.submit(page, page, { texts: 'nobody@example.com' });
        const stored = tablesOf(instance.database)
          .selectFrom('crm_erasures')
          .select(['state', 'claimed_until'])
          .orderBy('id', 'desc')
          .limit(1);
        const shown = await connected(String(instance.config.environment.DATABASE_URL), async (client) => {
          await client.query('begin; lock table crm_notes in access exclusive mode');
          const sent = await search();
          await untilWaiting(client, 'the search to wait');
          await turn(true);
          const answer = await browser.get(sent.headers.get('location') ?? '');
          await client.query('commit');
          return answer;
        });
        assert.match(
          readable(shown.text),
          /This instance is read-only\. The search or erasure will continue/,
        );
        await until(
          async () => (await stored.executeTakeFirstOrThrow()).claimed_until === null,
          'the search to stop',
        );
        assert.equal((await stored.executeTakeFirstOrThrow()).state, 'searching');
        const { id } = await tablesOf(instance.database)
          .selectFrom('crm_erasures')
          .select('id')
          .where('state', '=', 'searching')
          .executeTakeFirstOrThrow();
        await turn(false);
        // Any request wakes the worker.
        await search();
        const first = stored.clearOrderBy().where('id', '=', id);
        await until(
          async () => (await first.executeTakeFirstOrThrow()).state === 'nothing',
          'the end of the search',
        );
      });

    test('an import in progress ends with a report of the written lines', async () => {
      const sending = request(`${instance.url}/api/v1/leads/import`, {
        method: 'POST',
        headers: { authorization: `Bearer ${acme.key}`, 'content-type': 'application/x-ndjson' },
      });
      const line = '{"last_name":"Imported"}\n';
      const response = new Promise<string>((resolve, reject) => {
        sending.on('response', (response) => resolve(text(response)));
        sending.on('error', reject);
      });
      const count = async () => {
        const { headers } = await instance.call('GET /api/v1/leads', {
          key: acme.key,
          headers: { prefer: 'count=exact' },
        });
        return Number(headers.get('x-total-count'));
      };
      const all = (await count()) + 1000;
      sending.write(line.repeat(1000));
      await until(async () => (await count()) === all, 'write the first lines');
      await turn(true);
      sending.end(line);
      const { code, report } = JSON.parse(await response);
      assert.deepEqual([code, report.created], ['read_only', 1000]);
      await turn(false);
    });
  });
}
