// The size and CPU time of each page are limited regardless of the stored values, and its bytes are
// attributed to its organization. Tests every page in the router.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { administratorOf, readable, signIn, type Visitor } from '../support/forms.ts';
import {
  endOfLong,
  followLinks,
  hostileOrganization,
  long,
  pageModules,
  pageRoutes,
  pageSources,
  versions,
} from '../support/hostile/pages.ts';
import { routesOf } from '../support/hostile/routes.ts';
import { countAllocated } from '../support/hostile/work.ts';
import {
  type Answer,
  drivers,
  type Instance,
  type Organization,
  startInstance,
} from '../support/instance.ts';
import { type ClientHost, oauthSettings, startClientHost } from '../support/oauth-client.ts';
import { delivered, integrate, unmatchedPayment } from '../support/partners.ts';
import { fresh } from '../support/people.ts';
import { patientSignals } from '../support/promised.ts';

/** Maximum size of a page, in bytes. */
const mostBytes = 1024 * 1024;
/** Maximum CPU time for a page, and for each MiB of its response, in multiples of {@link calibration}. */
const mostWork = { page: 3, mebibyte: 2 };
/** Maximum attempts for a page that takes longer. The shortest time counts, because garbage collection is unpredictable. */
const tries = 4;

/** Maximum number of bytes allocated for a page, and for each byte of its response. */
const mostAllocated = { page: 64 * 1024 * 1024, byte: 32 };

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

/** Pages that are not rendered, with the reason. */
const notRendered: Readonly<Record<string, string>> = {
  '/setup/login/second-factor': 'It requires a login that waits for the second factor.',
  '/setup/login/with/:provider': 'It redirects to an OpenID Connect provider.',
  '/setup/login/with/:provider/callback': 'An OpenID Connect provider redirects to it.',
  '/setup/me/second-factor/remove-passkey': 'It requires a passkey.',
};
/** URLs of forms without a page of their own. They redirect, for example after a reload. */
const formUrls: readonly string[] = [
  '/setup',
  '/setup/login/passkey',
  '/setup/me/apps/disconnect',
  ...['end-session', 'logout-everywhere', 'name', 'language', 'password'].map((name) => `/setup/me/${name}`),
  ...[
    'custom-fields/restore',
    'deliveries/replay',
    'deliveries/replay-all',
    'event-deliveries',
    'event-deliveries/item',
    ...['test', 'switch', 'replay', 'replay-all'].map((name) => `events/${name}`),
    'forgetting/cancel',
    'integrations/switch',
    'view-as/stop',
    ...['views', 'views/:view/query', ':id/board', ':id/notes', 'undo'].map(
      (name) => `data/:resource/${name}`,
    ),
  ].map((name) => `/setup/o/:org/${name}`),
];

for (const driver of drivers) {
  describe(`hostile stored values (${driver})`, () => {
    patientSignals();
    let instance: Instance;
    let acme: Organization;
    let admin: Visitor;
    let start: readonly string[];
    let urls: readonly string[];
    let lead: string;
    /** IDs of a parcel and of a view of parcels. */
    let parcel: { readonly id: string; readonly view: string };
    /** Response bytes held in memory for each organization until clients have read them. */
    const held: [organization: string, bytes: number][] = [];
    let host: ClientHost;

    before(async () => {
      host = await startClientHost();
      const { environment } = oauthSettings([host.port], { new_organizations: 'administrators' });
      const { built, routes } = await routesOf(() =>
        startInstance(driver, {
          sources: pageSources,
          modules: pageModules,
          // Database time limits, which a busy machine could exceed, are not tested here.
          environment: { ...environment, DATABASE_LIST_TIMEOUT_MS: '60000' },
        }),
      );
      instance = built;
      urls = pageRoutes(routes(built.app));
      const { hold } = instance.database;
      Object.assign(instance.database, {
        hold: (organization: string, bytes: number) => {
          held.push([organization, bytes]);
          return hold(organization, bytes);
        },
      });
      const { ids, ...hostile } = await hostileOrganization(instance, host);
      ({ acme, admin, start } = hostile);
      lead = ids.leads ?? assert.fail();
      parcel = { id: ids.parcels ?? assert.fail(), view: '1' };
    });
    after(async () => {
      await instance.close();
      await host.close();
    });

    const call = async (request: string) => {
      const answer = await instance.call(request, { key: acme.key });
      assert.ok(answer.status < 300, answer.text.slice(0, 500));
      return answer.json;
    };

    test('limits the size, CPU time and allocated bytes of every page', async () => {
      let unit = await calibration();
      const problems: string[] = [];
      const rendered = new Set<string>();
      await followLinks(urls, start, async ({ url, path }) => {
        let answer: Answer | undefined;
        const least = { cpuMs: Number.POSITIVE_INFINITY, allocated: Number.POSITIVE_INFINITY };
        const excess = (): string[] => {
          const bytes = Buffer.byteLength(answer?.text ?? '');
          const work = mostWork.page + (mostWork.mebibyte * bytes) / 1024 / 1024;
          const allocated = mostAllocated.page + mostAllocated.byte * bytes;
          return [
            ...(least.cpuMs > work * unit
              ? [`${(least.cpuMs / unit).toFixed(1)} times the calibration`]
              : []),
            ...(least.allocated > allocated ? [`${least.allocated} bytes allocated`] : []),
          ];
        };
        for (let attempt = 0; attempt < tries && (attempt === 0 || excess().length > 0); attempt++) {
          const allocatedBytes = countAllocated();
          const cpuMs = await cost(async () => {
            answer = await admin.get(path);
          });
          const allocated = allocatedBytes();
          // The embedded database runs on this thread, so its own work would be measured, too.
          const isMeasured = driver === 'postgresql';
          least.cpuMs = isMeasured ? Math.min(least.cpuMs, cpuMs) : 0;
          least.allocated = isMeasured ? Math.min(least.allocated, allocated) : 0;
          // Other processes slow down the calibration as much as they slow down the page.
          if (excess().length > 0) unit = Math.max(unit, await calibration());
        }
        assert.ok(answer);
        if (answer.status === 200) rendered.add(url);
        if (answer.status >= 500) problems.push(`${path}: ${answer.status}`);
        const bytes = Buffer.byteLength(answer.text);
        if (bytes > mostBytes) problems.push(`${path}: ${bytes} bytes`);
        problems.push(...excess().map((text) => `${path}: ${text}`));
        if (answer.text.includes(endOfLong)) problems.push(`${path}: a whole value`);
        return answer;
      });
      assert.deepEqual(problems, []);
      const unrendered = urls.filter((url) => !rendered.has(url));
      assert.deepEqual(unrendered.sort(), [...formUrls, ...Object.keys(notRendered)].sort());
    });

    test("forms' URLs redirect to a page", async () => {
      const parameters: Readonly<Record<string, string>> = { org: 'acme', resource: 'parcels', ...parcel };
      for (const url of formUrls) {
        const path = url.replace(/:(\w+)/g, (_, name: string) => parameters[name] ?? assert.fail(name));
        const { status, headers } = await admin.get(path);
        assert.ok([303, 308].includes(status), `${path}: ${status}`);
        if (status === 303) assert.equal((await admin.get(headers.get('location') ?? '')).status, 200, path);
      }
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
        assert.ok(value.text.endsWith(endOfLong));
      }
      const other = await instance.organization(fresh('other'));
      const stranger = await signIn(instance, administratorOf(other));
      const path = linkOf(/^Show full value of Description$/);
      assert.equal((await stranger.get(path)).status, 403);
      assert.equal((await stranger.get(path.replace('/acme/', `/${other.slug}/`))).status, 404);
      for (const query of ['', '?field=nothing', '?field=description&change=1-1&side=after'])
        assert.equal((await admin.get(path.replace(/\?.*/, query))).status, 404, query);
    });

    test('a truncated payload links to the full payload', async () => {
      const setup = '/setup/o/acme';
      const payload = long('paid ');
      await unmatchedPayment(instance, acme.id, { event: 'long', payload });
      const channel = await integrate(instance, acme, 'telegram');
      const delivery = await delivered(instance, acme.id, channel.id, { payload });
      const short = await delivered(instance, acme.id, channel.id, { payload: '{}' });
      const pages = [
        [
          `${setup}/partners?show=payments`,
          /<a[^>]* href="([^"]*\/partners\/value\?[^"]*)"[^>]*aria-label="Show full payload of long"/,
        ],
        [
          `${setup}/deliveries/item?id=${delivery}`,
          /<a href="([^"]*)" aria-label="Show full value of Details"/,
        ],
      ] as const;
      const other = await instance.organization(fresh('other'));
      const stranger = await signIn(instance, administratorOf(other));
      for (const [page, link] of pages) {
        const { text } = await admin.get(page);
        const path = readable(link.exec(text)?.[1] ?? assert.fail(text.slice(-5000)));
        const value = await admin.get(path);
        assert.equal(value.status, 200);
        assert.equal(value.headers.get('content-type'), 'text/plain; charset=utf-8');
        assert.equal(value.headers.get('x-content-type-options'), 'nosniff');
        assert.equal(value.text, payload);
        assert.equal((await stranger.get(path)).status, 403);
        assert.equal((await stranger.get(path.replace('/acme/', `/${other.slug}/`))).status, 404);
        for (const query of ['', '?id=', '?id=x', '?id=999999'])
          assert.equal((await admin.get(path.replace(/\?.*/, query))).status, 404, query);
      }
      const complete = await admin.get(`${setup}/deliveries/item?id=${short}`);
      assert.doesNotMatch(complete.text, /Show full value/);
    });

    test("a job's page links to its full result if it truncates or omits a part", async () => {
      const [work, failed, imported] = start.filter((path) => /\/jobs\/\d+$/.test(path));
      const linkIn = async (page: string | undefined) => {
        const { text } = await admin.get(page ?? assert.fail('no job'));
        return readable(/<a [^>]*href="([^"]*)">Show full result</.exec(text)?.[1] ?? '');
      };
      const link = await linkIn(work);
      assert.equal(link, `${work}/value`);
      const value = await admin.get(link);
      assert.equal(value.headers.get('content-type'), 'text/plain; charset=utf-8');
      const { text, ...others } = JSON.parse(value.text) as Record<string, unknown>;
      assert.equal(text, long('scanned '));
      assert.equal(Object.keys(others).length, 2000);
      for (const page of [failed, imported]) {
        assert.equal(await linkIn(page), '');
        assert.equal((await admin.get(`${page}/value`)).status, 404);
      }
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
