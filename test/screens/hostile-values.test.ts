// The size and CPU time of each page are limited regardless of the stored values, and its bytes are
// attributed to its organization. Tests every page in the router.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { tablesOf } from '../../engine/tables/index.ts';
import { whatsappBody } from '../support/channels.ts';
import { administratorOf, readable, signIn, type Visitor } from '../support/forms.ts';
import { routesOf } from '../support/hostile/routes.ts';
import {
  type Answer,
  drivers,
  type Instance,
  type Organization,
  startInstance,
} from '../support/instance.ts';
import { deliver, integrate, unmatchedPayment } from '../support/partners.ts';
import { fresh } from '../support/people.ts';
import { until } from '../support/process.ts';

/** Maximum size of a page, in bytes. */
const mostBytes = 1024 * 1024;
/** Maximum CPU time for a page, in multiples of {@link calibration}. */
const mostWork = 3;
/** Maximum attempts for a page that takes longer. The shortest time counts, because garbage collection is unpredictable. */
const tries = 4;

/**
 * Returns almost a megabyte of text that becomes about six times as long in HTML and has a recognizable end.
 */
const long = (name: string) => `${name}${'<"\'&`='.repeat(140_000)}THE-END-OF-IT`;
const versions = 20;
const manyRecords = 21;
const manyNames = 10;

/** Measures the work's CPU time on this thread, in milliseconds. */
async function cost(work: () => Promise<unknown> | unknown): Promise<number> {
  const start = process.threadCpuUsage();
  await work();
  const { user, system } = process.threadCpuUsage(start);
  return (user + system) / 1000;
}

/** Measures the CPU time for writing and parsing 8 MB of JSON, in milliseconds. */
async function calibration(): Promise<number> {
  const value = Array.from({ length: 8 }, () => 'x"'.repeat(250_000));
  const times: number[] = [];
  for (let round = 0; round < 3; round++) times.push(await cost(() => JSON.parse(JSON.stringify(value))));
  return Math.min(...times);
}

for (const driver of drivers) {
  describe(`hostile stored values (${driver})`, () => {
    let instance: Instance;
    let acme: Organization;
    let admin: Visitor;
    let paths: string[];
    /** Response bytes held in memory for each organization until clients have read them. */
    const held: [organization: string, bytes: number][] = [];
    let lead: string;
    let deleted: string;

    const call = async (request: string, body?: object) => {
      const answer = await instance.call(request, { key: acme.key, ...(body && { body }) });
      assert.ok(answer.status < 300, answer.text.slice(0, 500));
      return answer.json;
    };
    const make = async (resource: string, body: object) =>
      String((await call(`POST /api/v1/${resource}`, body)).id);

    before(async () => {
      const { built, routes } = await routesOf(() =>
        // Database time limits, which a busy machine could exceed, are not tested here.
        startInstance(driver, { environment: { DATABASE_LIST_TIMEOUT_MS: '60000' } }),
      );
      instance = built;
      const { hold } = instance.database;
      Object.assign(instance.database, {
        hold: (organization: string, bytes: number) => {
          held.push([organization, bytes]);
          return hold(organization, bytes);
        },
      });
      acme = await instance.organization('acme');
      const account = await make('accounts', { name: long('account') });
      const contact = await make('contacts', { last_name: long('contact'), account_id: Number(account) });
      const cased = await make('cases', { subject: long('case'), contact_id: Number(contact) });
      const opportunity = await make('opportunities', { name: long('order'), account_id: Number(account) });
      lead = await make('leads', { last_name: long('lead') });
      for (let version = 1; version <= versions; version++)
        await call(`PATCH /api/v1/leads/${lead}`, { description: long(`version ${version} `) });
      await call(`PATCH /api/v1/leads/${lead}`, { company: long('company') });
      deleted = await make('leads', { last_name: long('deleted') });
      await call(`DELETE /api/v1/leads/${deleted}`);
      for (let count = 0; count < manyRecords; count++) {
        const id = await make('leads', { last_name: long(`lead ${count}`) });
        await call(`PATCH /api/v1/leads/${id}`, { company: long('company') });
      }
      // Requests from partners, and names that are as long and hostile as allowed.
      await unmatchedPayment(instance, acme.id, { payload: long('payment') });
      const channel = await integrate(instance, acme, 'whatsapp');
      const message = { type: 'text', text: { body: 'x'.repeat(100_000) }, from: '491705550199' };
      await deliver(
        instance,
        channel,
        whatsappBody({ messages: [{ ...message, id: `wamid.${'"'.repeat(200)}`, timestamp: '1767225600' }] }),
      );
      const inbox = tablesOf(instance.database).selectFrom('crm_inbox').select('id');
      await until(
        async () => (await inbox.where('status', '=', 'waiting').execute()).length === 0,
        'the delivery',
      );
      const [item] = await inbox.execute();
      const name = '<"\'&`='.repeat(33);
      admin = await signIn(instance, administratorOf(acme));
      for (let count = 0; count < manyNames; count++) {
        await admin.submit('/setup/o/acme/profiles/create', '/setup/o/acme/profiles/create', {
          name: `${name.slice(0, 190)}${count}`,
        });
      }
      await acme.makeKey();

      const record = await admin.get(`/setup/o/acme/data/leads/${lead}`);
      const undo =
        /undo\?(change=[\d-]+)/.exec(readable(record.text))?.[1] ?? assert.fail(record.text.slice(-3000));
      const ids: Readonly<Record<string, string>> = {
        leads: lead,
        accounts: account,
        contacts: contact,
        cases: cased,
        opportunities: opportunity,
      };
      const queries: Readonly<Record<string, string>> = {
        '/setup/o/:org/data/:resource/:id/undo': `?${undo}`,
        '/setup/o/:org/deliveries/item': `?id=${item?.id}`,
      };
      paths = routes(instance.app)
        .filter(({ methods, url }) => methods.includes('GET') && url.startsWith('/setup'))
        .map(({ url }) => url)
        // Files and single full values are as long as the stored values.
        .filter((url) => !/\/(?:export|value|logout)$|\/assets\//.test(url))
        .flatMap((url) =>
          url.includes(':resource')
            ? Object.entries(ids).map(
                ([resource, id]) =>
                  url.replace(':resource', resource).replace(':id', id) + (queries[url] ?? ''),
              )
            : [url + (queries[url] ?? '')],
        )
        .map((url) => url.replace(':org', 'acme').replace(/:\w+/g, 'x'));
      const every = ['description', 'last_name', 'company'].map((column) => `columns=${column}`).join('&');
      paths.push(
        `/setup/o/acme/data/leads?${every}`,
        `/setup/o/acme/data/leads?${every}&sort=last_name`,
        `/setup/o/acme/data/leads?q=lead`,
        `/setup/o/acme/data/leads/${deleted}`,
      );
    });
    after(() => instance.close());

    test('limits the size and CPU time of every page', async () => {
      assert.ok(paths.length > 60, `${paths.length} pages`);
      let unit = await calibration();
      const problems: string[] = [];
      let rendered = 0;
      for (const path of paths) {
        let answer: Answer | undefined;
        let least = Number.POSITIVE_INFINITY;
        for (let attempt = 0; attempt < tries && least > mostWork * unit; attempt++) {
          const duration = await cost(async () => {
            answer = await admin.get(path);
          });
          // The embedded database runs on this thread, so the time would include its work.
          least = driver === 'embedded' ? 0 : Math.min(least, duration);
          // Other processes slow down the calibration as much as they slow down the page.
          if (least > mostWork * unit) unit = Math.max(unit, await calibration());
        }
        assert.ok(answer);
        if (answer.status >= 500) problems.push(`${path}: ${answer.status}`);
        if (answer.status === 200) rendered++;
        const bytes = Buffer.byteLength(answer.text);
        if (bytes > mostBytes) problems.push(`${path}: ${bytes} bytes`);
        if (least > mostWork * unit)
          problems.push(`${path}: ${(least / unit).toFixed(1)} times the calibration`);
        if (answer.text.includes('THE-END-OF-IT')) problems.push(`${path}: a whole value`);
      }
      assert.deepEqual(problems, []);
      assert.ok(rendered > 40, `${rendered} of ${paths.length} pages were rendered`);
    });

    test("attributes a page's bytes to its organization", async () => {
      held.length = 0;
      const answer = await admin.get('/setup/o/acme/data/leads?columns=description&columns=company');
      assert.equal(answer.status, 200);
      const bytes = Buffer.byteLength(answer.text);
      assert.ok(bytes > 32 * 1024, `${bytes} bytes`);
      assert.deepEqual(held, [[acme.id, bytes]]);
    });

    test('a truncated value links to the full value, before and after each change', async () => {
      const page = await admin.get(`/setup/o/acme/data/leads/${lead}`);
      const links = [...page.text.matchAll(/<a href="([^"]*\/value\?[^"]*)" aria-label="([^"]*)"/g)].map(
        ([, href = '', label = '']) => [readable(href), readable(label)] as const,
      );
      const linkOf = (pattern: RegExp) =>
        links.find(([, label]) => pattern.test(label))?.[0] ?? assert.fail(links.join('\n'));
      for (const [label, start] of [
        [/^Show full value of Description$/, `version ${versions} <`],
        [/^Show full value of Last name$/, 'lead<'],
        [/^Show full value of Company after/, 'company<'],
      ] as const) {
        const value = await admin.get(linkOf(label));
        assert.equal(value.status, 200);
        assert.equal(value.headers.get('content-type'), 'text/plain; charset=utf-8');
        assert.equal(value.headers.get('x-content-type-options'), 'nosniff');
        assert.ok(value.text.startsWith(start), value.text.slice(0, 50));
        assert.ok(value.text.endsWith('THE-END-OF-IT'));
      }
      const other = await instance.organization(fresh('other'));
      const stranger = await signIn(instance, administratorOf(other));
      const path = linkOf(/^Show full value of Description$/);
      assert.equal((await stranger.get(path)).status, 403);
      assert.equal((await stranger.get(path.replace('/acme/', `/${other.slug}/`))).status, 404);
      for (const query of ['', '?field=nothing', '?field=description&change=1-1&side=after'])
        assert.equal((await admin.get(path.replace(/\?.*/, query))).status, 404, query);
    });

    test('the history can be paged to its end', async () => {
      let next: string | undefined = `/setup/o/acme/data/leads/${lead}`;
      let changes = 0;
      let pages = 0;
      while (next !== undefined) {
        const page: Answer = await admin.get(next);
        assert.equal(page.status, 200);
        changes += [...page.text.matchAll(/<p>(?:Changed|Created) by/g)].length;
        pages++;
        next = readable(/<a href="([^"]*)">Older changes/.exec(page.text)?.[1] ?? '') || undefined;
      }
      assert.equal(changes, versions + 2);
      assert.ok(pages > 3, `${pages} pages`);
    });

    test('a long value cannot be edited in a form, and is kept when other fields are edited', async () => {
      const edit = `/setup/o/acme/data/leads/${lead}/edit`;
      const form = await admin.get(edit);
      assert.match(form.text, /can only be changed through the API/);
      const sent = await admin.submit(edit, edit, { first_name: 'Ada' });
      assert.equal(sent.status, 303, sent.text.slice(0, 500));
      const { first_name, description } = await call(`GET /api/v1/leads/${lead}`);
      assert.equal(first_name, 'Ada');
      assert.equal(description, long(`version ${versions} `));
    });
  });
}
