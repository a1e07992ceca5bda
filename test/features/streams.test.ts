// Streamed responses end when their caller loses access, however slowly they are read, and the size of each
// read is limited.
import assert from 'node:assert/strict';
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { once } from 'node:events';
import { globSync, readFileSync } from 'node:fs';
import { type IncomingMessage, request } from 'node:http';
import { join } from 'node:path';
import type { Readable } from 'node:stream';
import { after, before, describe, type TestContext, test } from 'node:test';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import { sql } from 'kysely';
import { type Tables, tablesOf, transaction } from '../../engine/tables/handle.ts';
import { revokeKey } from '../../plugins/access/api-keys/keys.ts';
import { endAllSessions } from '../../plugins/access/identity/sessions.ts';
import { changeMember, removeMember } from '../../plugins/access/members/members.ts';
import type { Grant } from '../../plugins/access/profiles/grants.ts';
import { changeProfile, createProfile, profileId } from '../../plugins/access/profiles/profiles.ts';
import { watchAdmission } from '../support/admitted.ts';
import { type Route, routesOf } from '../support/hostile/routes.ts';
import { drivers, type Instance, type Organization, startInstance } from '../support/instance.ts';
import { command, fresh, logIn, makePerson } from '../support/people.ts';
import { project, until } from '../support/process.ts';

type Headers = Readonly<Record<string, string>>;

interface StreamCase {
  /** The stream's route and content type. */
  readonly stream: string;
  /** The stream's URL in the organization `:org`. */
  readonly url: string;
  readonly headers?: Headers;
  /** The request's JSON body. Default: a GET request without a body. */
  readonly body?: object;
  /** A URL that needs the same permission but does not send a stream. */
  readonly probe: string;
  /** Whether callers authenticate with API keys and tokens instead of session cookies. */
  readonly isApi?: true;
  /** Whether only administrators can read the stream. Otherwise, a grant suffices. */
  readonly needsAdministrator?: true;
  /** Whether the stream does not have anything to send. */
  readonly isIdle?: true;
  /** Maximum size of one read, in addition to one record, in bytes. */
  readonly maxBytes: number;
}

const [kibibyte, mebibyte] = [1024, 1024 * 1024];
const leads = {
  url: '/api/v1/leads?sort=id&org=:org',
  probe: '/api/v1/leads?org=:org',
  isApi: true,
} as const;
const events = {
  stream: 'GET /events text/event-stream',
  headers: { accept: 'text/event-stream' },
  probe: '/events?after=now&resources=leads&org=:org',
  isApi: true,
  maxBytes: 256 * kibibyte,
} as const;

const activityExport = 'GET /setup/o/:org/activity/export text/csv';

/** Every stream of the service. */
const cases: readonly StreamCase[] = [
  {
    ...leads,
    stream: 'GET /api/v1/:resource text/csv',
    headers: { accept: 'text/csv', 'accept-encoding': 'gzip' },
    maxBytes: 4 * mebibyte,
  },
  {
    ...leads,
    stream: 'GET /api/v1/:resource application/x-ndjson',
    headers: { accept: 'application/x-ndjson' },
    maxBytes: 4 * mebibyte,
  },
  {
    ...leads,
    stream: 'POST /api/v1/:resource/query text/csv',
    url: '/api/v1/leads/query?org=:org',
    body: { sort: 'id' },
    headers: { accept: 'text/csv' },
    maxBytes: 4 * mebibyte,
  },
  {
    ...leads,
    stream: 'QUERY /api/v1/:resource application/x-ndjson',
    url: '/api/v1/leads?org=:org',
    body: { sort: 'id' },
    headers: { accept: 'application/x-ndjson' },
    maxBytes: 4 * mebibyte,
  },
  { ...events, url: '/events?resources=leads&org=:org' },
  { ...events, url: '/events?after=now&resources=leads&org=:org', isIdle: true },
  {
    stream: activityExport,
    url: '/setup/o/:org/activity/export',
    probe: '/setup/o/:org/activity',
    needsAdministrator: true,
    maxBytes: 512 * kibibyte,
  },
  {
    stream: 'GET /setup/o/:org/data/:resource/export text/csv',
    url: '/setup/o/:org/data/leads/export',
    probe: '/setup/o/:org/data/leads',
    maxBytes: 4 * mebibyte,
  },
  {
    stream: 'GET /setup/organizations/:org/export application/x-ndjson',
    url: '/setup/organizations/:org/export',
    probe: '/setup/organizations/:org/rename',
    needsAdministrator: true,
    maxBytes: 4 * mebibyte,
  },
];

/** Streams that the same handler sends as another stream: `QUERY` is an alias for `POST …/query`. */
const aliases = ['POST /api/v1/:resource/query application/x-ndjson', 'QUERY /api/v1/:resource text/csv'];

/** Streams that end with their only read, because an aggregate has at most 1,000 groups. */
const singleReads = ['text/csv', 'application/x-ndjson'].map((type) => ({
  type,
  stream: `GET /api/v1/:resource/aggregate ${type}`,
}));

/** Callers of all streams, who lose access at the same time. */
interface Callers {
  /** Returns the credentials for an organization's stream, or undefined if these callers cannot open it. */
  readonly headersFor: (each: StreamCase, organization: number) => Headers | undefined;
  readonly revoke: (tables: Tables) => Promise<void>;
}

/** A stream in progress, and the number of times its caller was checked. */
interface Sent {
  readonly body: Readable;
  readonly checks: {
    started: number;
    pending: number;
    /** Whether checks are skipped. */
    isPaused: boolean;
  };
}

/** Size of a record, in bytes. */
const recordBytes = mebibyte;

for (const driver of drivers) {
  describe(`streamed responses (${driver})`, () => {
    // More than one read can return, and, for streams that are not read, more than a connection can buffer.
    const [recordCount, lineCount] = [16, 40_000];
    let instance: Instance;
    let routes: Route[];
    const organizations: Organization[] = [];
    const sent = new Map<string, Sent>();
    /** Records every stream, whichever handler sends it. */
    const watch = (message: unknown) => {
      const { fastify } = message as { readonly fastify: FastifyInstance };
      fastify.addHook('onSend', async (sending, _reply, payload) => {
        if (typeof payload === 'object' && payload !== null && !ArrayBuffer.isView(payload))
          sent.set(sending.id, { body: payload as Readable, checks: countChecks(sending) });
        return payload;
      });
    };

    before(async () => {
      subscribe('fastify.initialization', watch);
      const router = await routesOf(() => startInstance(driver));
      unsubscribe('fastify.initialization', watch);
      instance = router.built;
      routes = router.routes(instance.app);
      // An organization can have two exports at a time.
      for (const slug of ['acme', 'beta', 'gamma']) organizations.push(await instance.organization(slug));
      for (const { id } of organizations) await addRecords(instance, id, recordCount);
      const idOf = (stream: string) =>
        organizationOf(cases.find((each) => each.stream === stream) ?? assert.fail()).id;
      await addChanges(instance, idOf(events.stream));
      await addLines(instance, idOf(activityExport), lineCount);
    });
    after(() => instance.close());

    /** Index of the organization whose stream is opened. */
    const placeOf = (each: StreamCase) => cases.indexOf(each) % organizations.length;
    const organizationOf = (each: StreamCase) => organizations[placeOf(each)] ?? assert.fail();
    const urlOf = (path: string, { slug }: Organization) => `${instance.url}${path.replace(':org', slug)}`;

    /** Opens a stream and reads only its head. */
    async function openStream(each: StreamCase, organization: Organization, headers: Headers) {
      const [method] = each.stream.split(' ');
      const opening = request(urlOf(each.url, organization), {
        method,
        headers: { 'content-type': 'application/json', ...each.headers, ...headers },
        agent: false,
      });
      opening.end(each.body && JSON.stringify(each.body));
      const [response] = (await once(opening, 'response')) as [IncomingMessage];
      response.on('error', () => {});
      assert.equal(response.statusCode, 200, each.url);
      const stream = sent.get(String(response.headers['x-request-id'])) ?? assert.fail(each.url);
      return { ...stream, response };
    }

    const actor = () => command(instance);
    const grants = [{ object: 'leads', actions: ['list'] }] as const;

    /** Creates an API key with its own profile for each organization. */
    const apiKeys = () =>
      Promise.all(
        organizations.map(async ({ id, makeKey }) => {
          const name = fresh('profile');
          const profile = await transaction(instance.database, (tables) =>
            createProfile(tables, actor(), id, name, grants),
          );
          const { id: keyId, key } = await makeKey({ profile: name });
          return { organization: id, keyId, profile, headers: { authorization: `Bearer ${key}` } };
        }),
      );

    /**
     * Creates and logs in a member of all organizations, who is an administrator unless grants are passed.
     */
    async function member(only?: typeof grants) {
      const parts = organizations.map((organization) => ({ organization, ...(only && { grants: only }) }));
      const person = await makePerson(instance, parts);
      const { byCookie, byToken } = await logIn(instance, person);
      return { user: person.id, headersFor: ({ isApi }: StreamCase) => (isApi ? byToken : byCookie) };
    }

    /** How callers lose access. */
    const revocations: Readonly<Record<string, () => Promise<Callers>>> = {
      'its API key is revoked': async () => {
        const keys = await apiKeys();
        return {
          headersFor: ({ isApi }, index) => (isApi ? keys[index]?.headers : undefined),
          revoke: async (tables) => {
            for (const { organization, keyId } of keys) await revokeKey(tables, actor(), organization, keyId);
          },
        };
      },
      'its grant is removed': async () => {
        const keys = await apiKeys();
        const [administrator, lister] = [await member(), await member(grants)];
        return {
          headersFor: (each, index) => {
            if (each.isApi) return keys[index]?.headers;
            return (each.needsAdministrator ? administrator : lister).headersFor(each);
          },
          revoke: async (tables) => {
            for (const { organization, profile } of keys) {
              await changeProfile(tables, actor(), organization, profile, []);
              const readOnly = await profileId(tables, organization, 'read-only');
              await changeMember(tables, actor(), organization, administrator.user, readOnly);
            }
            const memberships = tables
              .selectFrom('crm_memberships')
              .select(['organization_id', 'profile_id']);
            for (const row of await memberships.where('user_id', '=', lister.user).execute())
              await changeProfile(tables, actor(), row.organization_id, row.profile_id, []);
          },
        };
      },
      'its user is logged out everywhere': async () => {
        const { user, headersFor } = await member();
        return { headersFor, revoke: (tables) => endAllSessions(tables, actor(), user, []) };
      },
      'its user is removed from the organization': async () => {
        const { user, headersFor } = await member();
        return {
          headersFor,
          revoke: async (tables) => {
            for (const { id } of organizations) await removeMember(tables, actor(), id, user);
          },
        };
      },
    };

    test('each is declared by its route and covered by this test', () => {
      const declared = routes.flatMap(({ methods, url, streams }) =>
        methods.flatMap((method) => streams.map((type) => `${method} ${url} ${type}`)),
      );
      const tested = [
        ...cases.map(({ stream }) => stream),
        ...aliases,
        ...singleReads.map(({ stream }) => stream),
      ].flatMap((stream) =>
        stream.startsWith('/api/v1/:resource', stream.indexOf('/'))
          ? instance.resources.map(({ name }) => stream.replace(':resource', name))
          : [stream],
      );
      // A HEAD request does not have a stream.
      const all = tested.flatMap((stream) => [
        stream,
        ...(stream.startsWith('GET ') ? [`HEAD${stream.slice(3)}`] : []),
      ]);
      assert.deepEqual([...new Set(declared)].sort(), [...new Set(all)].sort());
    });

    let administrator: Awaited<ReturnType<typeof member>>;
    before(async () => {
      administrator = await member();
    });

    test('none is read or recorded for a HEAD request', async () => {
      for (const each of cases.filter(({ stream }) => stream.startsWith('GET '))) {
        const exportCount = await countExports(instance);
        const watched = await watchAdmission(instance);
        try {
          const response = await fetch(urlOf(each.url, organizationOf(each)), {
            method: 'HEAD',
            headers: { ...each.headers, ...administrator.headersFor(each) },
          });
          assert.deepEqual([response.status, await response.text()], [200, ''], each.url);
          const body = sent.get(String(response.headers.get('x-request-id')))?.body;
          // The feed responds with its first page instead of a stream.
          if (body === undefined) assert.equal(each.stream, events.stream);
          else {
            await until(() => body.closed, 'close the stream');
            assert.equal(body.readableEnded, false, `${each.url} was read to its end`);
            const read = watched.bytes.reduce((sum, bytes) => sum + bytes, 0);
            assert.ok(read < 64 * kibibyte, `${each.url} read ${read} bytes`);
          }
        } finally {
          watched.stop();
        }
        assert.equal(await countExports(instance), exportCount, `${each.url} was recorded`);
      }
    });

    for (const { type } of singleReads)
      test(`an aggregate in ${type} ends with its only read`, async () => {
        const [organization = assert.fail()] = organizations;
        const watched = await watchAdmission(instance);
        try {
          const url = urlOf('/api/v1/leads/aggregate?group_by=status&org=:org', organization);
          const response = await fetch(url, {
            headers: { accept: type, authorization: `Bearer ${organization.key}` },
          });
          assert.match(await response.text(), new RegExp(`\\b${recordCount}\\D*$`));
        } finally {
          watched.stop();
        }
        const { id } = organization;
        const slots = watched.slots.filter((slot) => !slot.startsWith('lookup '));
        assert.deepEqual(slots, [`stream ${id}`, `aggregate ${id}`]);
      });

    for (const [name, callersOf] of Object.entries(revocations)) {
      test(`each ends with the next check of its caller after ${name}`, async (t) => {
        const { headersFor, revoke } = await callersOf();
        const all = (
          await Promise.all(
            cases.map(async (each) => {
              const organization = organizationOf(each);
              const headers = headersFor(each, placeOf(each));
              if (headers === undefined) return [];
              const stream = await openStream(each, organization, headers);
              return [{ each, headers, stream, probe: urlOf(each.probe, organization) }];
            }),
          )
        ).flat();
        t.after(() => all.map(({ stream }) => stream.response.destroy()));
        for (const { each, stream } of all) assert.ok(!stream.body.closed, `${each.url} has not ended`);
        // The streams' timers have the same interval as this timer and are in the same list, so each stream
        // checks its caller between two ticks unless its last check is still running.
        const unchecked: string[] = [];
        const checksOfAll = () => all.map(({ stream: { checks } }) => ({ ...checks }));
        let previous: ReturnType<typeof checksOfAll> | undefined;
        const timer = setInterval(() => {
          for (const [index, { each, stream }] of all.entries()) {
            const last = previous?.[index];
            if (last?.pending === 0 && last.started === stream.checks.started && !stream.body.destroyed)
              unchecked.push(each.url);
          }
          previous = checksOfAll();
        }, 1000);
        await transaction(instance.database, revoke);
        const startedBy = await Promise.all(
          all.map(async ({ each, headers, stream: { checks }, probe }) => {
            const isRejected = async () => {
              const response = await fetch(probe, { headers, redirect: 'manual' });
              await response.arrayBuffer();
              return [401, 403, 303].includes(response.status);
            };
            await until(isRejected, `reject ${each.probe}`);
            return checks.started;
          }),
        );
        const open = () => all.filter(({ stream }) => !stream.body.closed).map(({ each }) => each.url);
        await until(() => open().length === 0, 'end all streams').catch(() => {});
        clearInterval(timer);
        assert.deepEqual(open(), [], 'still open');
        assert.deepEqual(unchecked, [], 'checked in each interval');
        for (const [index, { each, stream }] of all.entries()) {
          const late = stream.checks.started - (startedBy[index] ?? 0);
          assert.ok(
            late <= 1,
            `${each.url}: ended by check ${late} after the revocation instead of the first`,
          );
          const received = await drain(stream.response);
          // A change feed can end between two changes.
          const isComplete =
            each.stream === events.stream ? received > recordCount * recordBytes : stream.response.complete;
          assert.ok(!isComplete, `${each.url} is incomplete`);
        }
      });
    }

    test('none is checked again while it closes', async (t) => {
      const { user, headersFor } = await member();
      const [each = assert.fail()] = cases;
      const [closing, other] = await Promise.all(
        [{ headersFor }, administrator].map((caller) =>
          openStream(each, organizationOf(each), caller.headersFor(each)),
        ),
      );
      assert.ok(closing && other);
      t.after(() => [closing, other].map(({ response }) => response.destroy()));
      const { body } = closing;
      const destroy = body._destroy.bind(body);
      let close: (() => void) | undefined;
      body._destroy = (...parameters) => {
        close = () => destroy(...parameters);
      };
      await transaction(instance.database, (tables) => endAllSessions(tables, actor(), user, []));
      await until(() => close !== undefined, 'end the stream');
      const [last, otherLast] = [closing.checks.started, other.checks.started];
      await until(() => other.checks.started >= otherLast + 2, 'check the other stream');
      assert.equal(closing.checks.started, last);
      close?.();
      await until(() => body.closed, 'close the stream');
    });

    describe('the change feed', () => {
      const leadsAndAccounts = [...grants, { object: 'accounts', actions: ['list'] }];
      /** Opens a stream whose caller can list some resources, and is not checked until the test continues the checks. */
      const openFeed = async (t: TestContext, listable: readonly Grant[]) => {
        const [organization = assert.fail()] = organizations;
        const { id } = organization;
        const tables = tablesOf(instance.database);
        const name = fresh('profile');
        const profile = await createProfile(tables, actor(), id, name, listable);
        const { key } = await organization.makeKey({ profile: name });
        const headers = { authorization: `Bearer ${key}` };
        const feedCase = { ...events, url: '/events?after=now&org=:org' };
        const stream = await openStream(feedCase, organization, headers);
        t.after(() => stream.response.destroy());
        stream.checks.isPaused = true;
        await until(() => stream.checks.pending === 0, 'finish the check in progress');
        return {
          ...stream,
          change: (resource: string, size: number, count = 1) =>
            sql`insert into crm_ledger (organization_id, actor_kind, action, object, object_id, version, record)
              select ${id}::bigint, 'command', 'create', ${resource}, n, 1, json_build_object('name', repeat('x', ${size}::int))::text
              from generate_series(1, ${count}::int) n`.execute(tables),
          /** Changes the resources that the caller can list, and waits until this is in force. */
          grant: async (granted: readonly Grant[]) => {
            await changeProfile(tables, actor(), id, profile, granted);
            const probe = urlOf('/events?after=now&resources=accounts&org=:org', organization);
            const status = granted === leadsAndAccounts ? 200 : 403;
            await until(async () => (await fetch(probe, { headers })).status === status, 'change the grants');
          },
        };
      };

      test('ends if its caller gains and loses a resource between two checks', async (t) => {
        const { body, checks, response, change, grant } = await openFeed(t, grants);
        await grant(leadsAndAccounts);
        await change('accounts', recordBytes, recordCount);
        // The client does not read its response, so the stream waits with unread changes.
        await until(() => response.readableLength > kibibyte, 'receive changes to accounts');
        await grant(grants);
        const { started } = checks;
        checks.isPaused = false;
        await until(
          () => body.closed || (checks.started > started + 2 && checks.pending === 0),
          'check the caller',
        );
        assert.ok(body.closed);
        assert.ok((await drain(response)) < recordCount * recordBytes);
      });

      test('ends before it skips changes that its caller can no longer list', async (t) => {
        const { body, response, change, grant } = await openFeed(t, leadsAndAccounts);
        await grant(grants);
        await change('accounts', kibibyte);
        await change('leads', kibibyte);
        await until(() => body.closed || response.readableLength > kibibyte, 'end the stream');
        assert.ok(body.closed);
        assert.ok((await drain(response)) < kibibyte);
      });
    });

    for (const each of cases.filter(({ isIdle }) => isIdle !== true)) {
      test(`no read of ${each.stream} exceeds its limit and one record`, async () => {
        const { headersFor } = administrator;
        const watched = await watchAdmission(instance);
        try {
          const { response } = await openStream(each, organizationOf(each), headersFor(each));
          // The change feed does not end.
          const size = each.stream === events.stream ? recordCount * recordBytes : Number.POSITIVE_INFINITY;
          let received = 0;
          for await (const chunk of response) {
            received += (chunk as Buffer).length;
            if (received > size) break;
          }
          const read = watched.bytes.reduce((sum, bytes) => sum + bytes);
          assert.ok(read > received / 2, `${read} bytes read, ${received} received`);
          const most = Math.max(...watched.bytes);
          assert.ok(most < each.maxBytes + 1.25 * recordBytes, `${most} bytes in one read`);
        } finally {
          watched.stop();
        }
      });
    }
  });
}

test('no handler writes to the connection of a response', () => {
  const files = globSync('{engine,plugins,webhooks,app}/**/*.ts', { cwd: project });
  assert.ok(files.length > 100);
  assert.deepEqual(
    files.filter((file) =>
      /\.hijack\(|reply\.raw\.(write|end)|\braw\.(write|end)\(/.test(
        readFileSync(join(project, file), 'utf8'),
      ),
    ),
    [],
  );
});

/** Counts how many times a request's caller is checked from now on. */
function countChecks(sending: FastifyRequest): Sent['checks'] {
  const checks = { started: 0, pending: 0, isPaused: false };
  const { assertAllowed } = sending;
  if (assertAllowed !== undefined) {
    sending.assertAllowed = async () => {
      if (checks.isPaused) return;
      checks.started++;
      checks.pending++;
      await assertAllowed().finally(() => checks.pending--);
    };
  }
  return checks;
}

/** Creates records that do not compress well. */
async function addRecords({ database }: Instance, organization: string, count: number): Promise<void> {
  await sql`insert into leads (organization_id, created_at, updated_at, last_name, description)
    select ${organization}::bigint, now(), now(), 'Ames', n || text.part from generate_series(1, ${count}::int) n,
    (select string_agg(md5(i::text), '') as part from generate_series(1, ${recordBytes / 32}::int) i) text`.execute(
    tablesOf(database),
  );
}

/** Creates a change to each record. */
async function addChanges({ database }: Instance, organization: string): Promise<void> {
  await sql`insert into crm_ledger (organization_id, actor_kind, action, object, object_id, version, record)
    select organization_id, 'command', 'create', 'leads', id, 1, json_build_object('description', description)::text
    from leads where organization_id = ${organization}::bigint`.execute(tablesOf(database));
}

/** Returns the number of exports in the change log. */
async function countExports({ database }: Instance): Promise<number> {
  const exports = await tablesOf(database)
    .selectFrom('crm_ledger')
    .select('id')
    .where('action', '=', 'export')
    .execute();
  return exports.length;
}

/** Creates activity entries. */
async function addLines({ database }: Instance, organization: string, count: number): Promise<void> {
  await sql`insert into crm_ledger (organization_id, actor_kind, actor_id, actor_name, action, object)
    select ${organization}::bigint, 'key', 1, repeat('x', 300), 'update', 'key' from generate_series(1, ${count}::int)`.execute(
    tablesOf(database),
  );
}

/** Reads a response to its end, complete or not. @returns the number of bytes */
async function drain(response: IncomingMessage): Promise<number> {
  let received = 0;
  response.on('data', (chunk: Buffer) => {
    received += chunk.length;
  });
  if (!response.closed) await new Promise((resolve) => response.once('close', resolve));
  return received;
}
