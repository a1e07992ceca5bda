// Callers whose grants are limited try to learn something about records and fields that they cannot see.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type IncomingMessage, request } from 'node:http';
import { before, test } from 'node:test';
import { sql } from 'kysely';
import { tablesOf } from '../../engine/tables/handle.ts';
import { runCommand } from '../support/command-line.ts';
import { signIn } from '../support/forms.ts';
import { type Organization, onBothDrivers } from '../support/instance.ts';
import { limitedKey, limitedPerson, setGrants } from '../support/limited.ts';
import { logIn, makePerson } from '../support/people.ts';
import { until } from '../support/process.ts';
import { settledFeed } from '../support/receiver.ts';
import { sourcesWith } from '../support/sources.ts';

const owned = `common: all
scopes:
  own: owner_id == me
  open: status == "Open"
`;
const fields = `fields:
  owner_id: { type: int64, nullable: true, read_only: true, set: creator, assignable: true }
  name: { type: string }
  status: { type: string, default: Open }
`;
const rest = 'sort: { by: created_at, direction: desc }\nfilters: [name, status]\n';
const desks = { file: 'desks.yaml', text: `singular: desk\n${owned}${fields}${rest}` };
const tickets = {
  file: 'tickets.yaml',
  text: `singular: ticket
${owned}${fields}  desk_id: { type: reference, to: desks, nullable: true, on_delete: restrict }
  desk_name: { type: joined, through: desk_id, show: [name] }
${rest}`,
};
const parts = {
  file: 'parts.yaml',
  text: `singular: part
common: all
fields:
  name: { type: string }
  visit_id: { type: reference, to: visits, nullable: true }
sort: { by: created_at, direction: desc }
`,
};
const visits = {
  file: 'visits.yaml',
  text: `singular: visit
common: all
scopes:
  live: closed_at == null
  planned: '!(closed_at != null)'
fields:
  name: { type: string }
  closed_at: { type: timestamp, nullable: true }
  code: { type: string, unique: true, group: finance }
sort: { by: created_at, direction: desc }
filters: [name]
children:
  parts: { of: parts, by: visit_id, writable: true }
`,
};
const renamed = 'alias: true, deprecated: 2026-11-01, sunset: 2027-06-30';
const steps = {
  file: 'steps.yaml',
  text: `singular: step
common: all
fields:
  code: { type: string, unique: true }
  name: { type: string }
  note: { type: string, group: internal, renamed_from: memo, ${renamed} }
  visit_id: { type: reference, to: visits, nullable: true, on_delete: cascade }
  visit_code: { type: joined, through: visit_id, show: [code], group: finance }
  desk_id: { type: reference, to: desks, nullable: true }
  ticket_ids: { type: references, to: tickets, renamed_from: case_ids, ${renamed} }
sort: { by: created_at, direction: desc }
`,
};

const badges = {
  file: 'badges.yaml',
  text: `singular: badge
common: all
trash: 30 days
fields:
  name: { type: string }
  serial: { type: string, unique: true, group: internal }
  desk_id: { type: reference, to: desks, nullable: true, on_delete: restrict, group: internal }
  slug: { type: string, nullable: true, unique: true, group: internal, default_from: name }
sort: { by: created_at, direction: desc }
`,
};

onBothDrivers(
  'attacks on limits',
  (instance) => {
    let acme: Organization;
    before(async () => {
      acme = await instance().organization('acme');
    });
    const send = (key: string, request: string, body?: unknown) =>
      instance().call(request.replace(' /', ' /api/v1/'), { key, ...(body !== undefined && { body }) });
    const create = async (resource: string, body: object) => {
      const answer = await send(acme.key, `POST /${resource}`, body);
      assert.equal(answer.status, 201, answer.text);
      return Number(answer.json.id);
    };

    test('a key on behalf of a member shows and accepts no reference that the member cannot follow', async () => {
      const member = await limitedPerson(instance(), acme, ['desks:read:own', 'tickets:*']);
      const owner_id = Number(member.id);
      const { profile } = await limitedKey(instance(), acme, ['tickets:*']);
      const { key } = await acme.makeKey({ profile, onBehalfOf: member.id });
      const desk = await create('desks', { name: 'Hidden' });
      const ticket = await create('tickets', { name: 'Ticket', desk_id: desk });
      const own = await create('tickets', { desk_id: await create('desks', { name: 'Mine', owner_id }) });
      for (const caller of [member.key, key]) {
        const hidden = await send(caller, `GET /tickets/${ticket}`);
        assert.deepEqual([hidden.status, hidden.json.desk_name], [200, '']);
        const { headers } = hidden;
        assert.equal((await send(acme.key, `PATCH /desks/${desk}`, { name: 'Renamed' })).status, 200);
        assert.equal((await send(caller, `GET /tickets/${ticket}`)).headers.get('etag'), headers.get('etag'));
        assert.equal((await send(caller, `GET /tickets/${own}`)).json.desk_name, 'Mine');
        const assigned = await send(caller, `PATCH /tickets/${own}`, { desk_id: desk });
        assert.deepEqual([assigned.status, assigned.json.code], [400, 'missing_reference'], assigned.text);
      }
    });

    test('a field does not show the value of another record that its caller cannot read there', async () => {
      const visit_id = await create('visits', { code: 'shown by a step' });
      const step = await create('steps', { code: 'shows a visit', visit_id });
      const grants = ['steps:read', 'steps:list', 'steps.finance:read', 'visits:read'];
      for (const [more, visit_code] of [
        [[], ''],
        [['visits.finance:read'], 'shown by a step'],
      ] as const) {
        const { key } = await limitedKey(instance(), acme, [...grants, ...more]);
        assert.equal((await send(key, `GET /steps/${step}`)).json.visit_code, visit_code);
        const { data } = (await send(key, 'GET /steps?fields=visit_code')).json;
        assert.deepEqual((data as readonly object[])[0], { id: step, visit_code });
      }
    });

    test('an expanded list contains only the records that the caller can list', async () => {
      const grants = ['desks:read', 'desks:list', 'tickets:read', 'tickets:list:own'];
      const { id, key } = await limitedPerson(instance(), acme, grants);
      const desk_id = await create('desks', {});
      const own = await create('tickets', { desk_id, owner_id: Number(id) });
      const other = await create('tickets', { desk_id });
      for (const path of [`/desks/${desk_id}`, '/desks']) {
        const { json } = await send(key, `GET ${path}?fields=id&expand=tickets`);
        const [desk] = (json.data ?? [json]) as readonly {
          expanded: { tickets: { data: readonly { id: number }[] } };
        }[];
        assert.deepEqual(
          desk?.expanded.tickets.data.map((ticket) => ticket.id),
          [own],
          path,
        );
      }
      assert.equal((await send(key, `GET /tickets/${other}`)).status, 200);
    });

    test('former names show neither hidden fields nor hidden references', async () => {
      const hidden = await create('tickets', { status: 'Closed' });
      const visible = await create('tickets', {});
      const ticket_ids = [hidden, visible];
      const id = await create('steps', { code: 'renamed', note: 'Confidential', ticket_ids });
      const grants = ['steps:read', 'steps:list', 'steps:update', 'tickets:read:open'];
      const { key } = await limitedKey(instance(), acme, grants);
      // The change log contains all references, also those that the author of the change cannot see.
      assert.equal((await send(key, `PATCH /steps/${id}`, { name: 'changed' })).status, 200);
      for (const [caller, text, references] of [
        [key, undefined, [visible]],
        [acme.key, 'Confidential', ticket_ids],
      ] as const) {
        const {
          note,
          memo,
          ticket_ids: current,
          case_ids: former,
        } = (await send(caller, `GET /steps/${id}`)).json;
        assert.deepEqual([note, memo, current, former], [text, text, references, references]);
        const list = await send(caller, 'GET /steps?fields=case_ids');
        assert.deepEqual((list.json.data as readonly object[])[0], { id, case_ids: references });
        const history = await send(caller, `GET /steps/${id}/history`);
        const [change] = history.json.data as readonly { after: Record<string, unknown> }[];
        assert.deepEqual([change?.after.memo, change?.after.case_ids], [text, references]);
      }
      assert.equal((await send(key, 'GET /steps?fields=memo')).status, 400);
    });

    test('concurrent reads by callers with the same limits find the records of each caller', async () => {
      const people = await Promise.all(
        Array.from({ length: 4 }, () =>
          limitedPerson(instance(), acme, ['tickets:read:own', 'tickets:list:own', 'desks:read:own']),
        ),
      );
      const owned = await Promise.all(
        people.map(async ({ id, key }, index) => {
          const owner = { owner_id: Number(id) };
          const desk_id = await create('desks', { ...owner, name: `Desk ${index}` });
          return { key, index, ticket: await create('tickets', { ...owner, desk_id }) };
        }),
      );
      for (let round = 0; round < 5; round++)
        await Promise.all(
          owned.flatMap(({ key, index, ticket }) => [
            (async () => {
              const { status, json } = await send(key, `GET /tickets/${ticket}`);
              assert.deepEqual([status, json.id, json.desk_name], [200, ticket, `Desk ${index}`]);
            })(),
            (async () => {
              const other = owned[(index + 1) % owned.length]?.ticket;
              assert.equal((await send(key, `GET /tickets/${other}`)).status, 404);
            })(),
          ]),
        );
    });

    test('concurrent reads by callers with different limits show each caller its own view of a record', async () => {
      const grants = ['tickets:read:open', 'tickets:list:open'];
      const owner = await limitedPerson(instance(), acme, [...grants, 'desks:read:own']);
      const reader = await limitedPerson(instance(), acme, [...grants, 'desks:read:open']);
      const writer = await limitedPerson(instance(), acme, ['tickets:read:own', 'desks:read:own']);
      const owner_id = Number(owner.id);
      const desk_id = await create('desks', { owner_id, name: 'Closed desk', status: 'Closed' });
      const ticket = await create('tickets', { owner_id, desk_id });
      const read = async ({ key }: { readonly key: string }) => {
        const { status, json } = await send(key, `GET /tickets/${ticket}?expand=desk_id`);
        return [
          status,
          json.desk_name,
          (json.expanded as { desk_id: { id: number } | null } | undefined)?.desk_id?.id,
        ];
      };
      for (let round = 0; round < 5; round++)
        assert.deepEqual(await Promise.all([owner, reader, writer, reader, owner].map(read)), [
          [200, 'Closed desk', desk_id],
          [200, '', undefined],
          [404, undefined, undefined],
          [200, '', undefined],
          [200, 'Closed desk', desk_id],
        ]);
    });

    test('a rejected delete counts the referring records in the scopes of the caller', async () => {
      const { key } = await limitedKey(instance(), acme, ['desks:delete', 'tickets:read:open']);
      const desk_id = await create('desks', {});
      for (const status of ['Open', 'Closed', 'Closed']) await create('tickets', { desk_id, status });
      const { status, json } = await send(key, `DELETE /desks/${desk_id}`);
      assert.deepEqual(
        [status, json.referrers],
        [409, [{ resource: 'tickets', field: 'desk_id', count: 1 }]],
      );
    });

    test('a rejected delete does not count records that refer through a field that the caller cannot read', async () => {
      const desk_id = await create('desks', {});
      for (const _ of [1, 2]) await create('badges', { desk_id });
      for (const [more, count] of [
        [[], 0],
        [['badges.internal:read'], 2],
      ] as const) {
        const { key } = await limitedKey(instance(), acme, ['desks:delete', 'badges:read', ...more]);
        const { status, json } = await send(key, `DELETE /desks/${desk_id}`);
        assert.deepEqual(
          [status, json.referrers],
          [409, [{ resource: 'badges', field: 'desk_id', count }]],
          String(more),
        );
      }
    });

    /** Starts an export that does not fit into a connection's buffers. */
    const startExport = async (path: string, headers: Readonly<Record<string, string>>) => {
      const outgoing = request(`${instance().url}${path}`, {
        headers: { ...headers, 'accept-encoding': 'identity' },
        agent: false,
      });
      outgoing.end();
      const [response] = (await once(outgoing, 'response')) as [IncomingMessage];
      assert.equal(response.statusCode, 200);
      // `once` of node:events would reject, because the response is incomplete.
      return { response, closed: new Promise((resolve) => response.once('close', resolve)) };
    };
    const assertIncomplete = async ({ response, closed }: Awaited<ReturnType<typeof startExport>>) => {
      response.resume();
      await closed;
      assert.equal(response.complete, false);
    };

    test('exports end when the limits of their caller change', async () => {
      const person = await limitedPerson(instance(), acme, ['desks:list:own', 'desks:list:open']);
      await create('desks', { name: 'Own', status: 'Closed', owner_id: Number(person.id) });
      await sql`insert into desks (organization_id, name, status, created_at, updated_at)
        select ${acme.id}::bigint, repeat('y', 20000), 'Open', now(), now() from generate_series(1, 2000)`.execute(
        tablesOf(instance().database),
      );
      const { byCookie, byToken } = await logIn(instance(), person);
      const exports = [
        await startExport('/api/v1/desks', { ...byToken, accept: 'application/x-ndjson' }),
        await startExport('/setup/o/acme/data/desks/export', byCookie),
      ];
      await setGrants(instance(), acme, person.profile, ['desks:list:open']);
      await until(async () => {
        const { json } = await send(person.key, 'GET /desks?status=Closed');
        return (json.data as readonly unknown[]).length === 0;
      }, 'apply the new grants');
      for (const started of exports) await assertIncomplete(started);
    });

    test('exports end when the caller can no longer read the expanded records, the email addresses or the trash', async () => {
      const account = await create('accounts', { name: 'Analytical Engines' });
      const tables = tablesOf(instance().database);
      await sql`insert into contacts (organization_id, owner_id, account_id, description, created_at, updated_at)
        select ${acme.id}::bigint, ${acme.user}::bigint, ${account}, repeat('y', 20000), now(), now() from generate_series(1, 2000)`.execute(
        tables,
      );
      await sql`insert into badges (organization_id, name, created_at, updated_at, _trashed_at)
        select ${acme.id}::bigint, repeat('y', 20000), now(), now(), now() from generate_series(1, 2000)`.execute(
        tables,
      );
      for (const [resource, query, grant] of [
        ['contacts', 'expand=account_id', 'accounts:read'],
        ['contacts', 'expand=owner_id', 'members:list'],
        ['badges', 'trashed=true', 'badges:restore'],
      ] as const) {
        const { key, profile } = await limitedKey(instance(), acme, [`${resource}:list`, grant]);
        const started = await startExport(`/api/v1/${resource}?${query}`, {
          authorization: `Bearer ${key}`,
          accept: 'application/x-ndjson',
        });
        await setGrants(instance(), acme, profile, [`${resource}:list`]);
        await until(async () => {
          const { json } = await instance().call('GET /auth/me', { key });
          return JSON.stringify(json.grants) === `{"${resource}":["list"]}`;
        }, 'apply the new grants');
        await assertIncomplete(started);
      }
    });

    test('email addresses of members require the grant members:list, in the change log and on pages', async () => {
      const author = await limitedPerson(instance(), acme, ['desks:*', 'tickets:*']);
      const { key: named } = await acme.makeKey({ profile: author.profile, onBehalfOf: author.id });
      const reader = await limitedPerson(instance(), acme, ['desks:*']);
      const administrator = await makePerson(instance(), [{ organization: acme }]);
      const id = await create('desks', {});
      const rename = async (name: string | null) =>
        sql`update crm_users set name = ${name} where id = ${author.id}::bigint`.execute(
          tablesOf(instance().database),
        );
      for (const key of [author.key, named, reader.key])
        assert.equal((await send(key, `PATCH /desks/${id}`, { owner_id: Number(author.id) })).status, 200);
      const actors = async (path: string, key: string) => {
        const { json } = await instance().call(`GET ${path}`, { key });
        const changes = json.data as readonly {
          readonly id: number;
          readonly actor: { name: string | null };
        }[];
        return changes.flatMap(({ id: of, actor }) => (of === id ? [actor.name] : [])).toSorted();
      };
      const paths = [`/api/v1/desks/${id}/history`, '/events?resources=desks'];
      const isComplete = async () => (await actors('/events?resources=desks', acme.key)).length === 4;
      await until(isComplete, 'appear in the feed');
      for (const name of [null, 'Ada']) {
        await rename(name);
        for (const path of paths) {
          assert.deepEqual(
            await actors(path, reader.key),
            ['admin', `${author.profile} on behalf of a member`, reader.email, name].toSorted(),
            path,
          );
          assert.ok((await actors(path, acme.key)).includes(author.email));
        }
        const [limited, complete] = [
          await signIn(instance(), reader),
          await signIn(instance(), administrator),
        ];
        const base = '/setup/o/acme/data/desks';
        for (const path of [
          `${base}?columns=owner_id`,
          `${base}/${id}`,
          `${base}/${id}/edit`,
          `${base}/new`,
        ]) {
          const { text } = await limited.get(path);
          assert.doesNotMatch(text, new RegExp(author.email), path);
          assert.match(text, new RegExp(`>${name ?? `ID ${author.id}`}<`), path);
          assert.match((await complete.get(path)).text, new RegExp(author.email), path);
        }
      }
    });

    test('a key does not see the email address of the user who has the ID of the key', async () => {
      const author = await limitedPerson(instance(), acme, ['desks:*']);
      const id = await create('desks', {});
      assert.equal((await send(author.key, `PATCH /desks/${id}`, { name: 'Renamed' })).status, 200);
      const { profile } = await limitedKey(instance(), acme, ['desks:*']);
      const { id: keyId, key } = await acme.makeKey({ profile });
      const rename = sql`update crm_ledger set actor_id = ${keyId}::bigint where object = 'desks' and object_id = ${id}::bigint
        and actor_kind = 'user'`;
      await rename.execute(tablesOf(instance().database));
      const namesFor = async (caller: string) => {
        const { data } = (await send(caller, `GET /desks/${id}/history`)).json;
        return (data as readonly { actor: { name: string | null } }[]).map(({ actor }) => actor.name);
      };
      assert.ok((await namesFor(acme.key)).includes(author.email));
      assert.ok(!(await namesFor(key)).includes(author.email));
    });

    test('records cannot be matched by a field that the caller can read, but not write', async () => {
      const id = await create('visits', { code: 'v1' });
      const grants = ['visits:read', 'visits:create', 'visits:update', 'visits.finance:read'];
      const upsert = { match: ['code'], records: [{ code: 'v1', name: 'Matched' }] };
      const reader = await limitedKey(instance(), acme, grants);
      const rejected = await send(reader.key, 'POST /visits/batch', upsert);
      assert.deepEqual(
        [rejected.status, rejected.json.error],
        [400, 'match cannot be used, because no field is unique'],
      );
      const writer = await limitedKey(instance(), acme, [...grants, 'visits.finance:update']);
      assert.deepEqual((await send(writer.key, 'POST /visits/batch', upsert)).json.results, [
        { status: 200, id },
      ]);
    });

    test('a conflict of hidden values does not reveal which record has the value', async () => {
      const { key } = await limitedKey(
        instance(),
        acme,
        ['list', 'read', 'create', 'restore'].map((action) => `badges:${action}`),
      );
      const id = await create('badges', { name: 'Red', serial: 's1' });
      const existing = await create('badges', { name: 'Blue', slug: 'green' });
      assert.equal((await send(acme.key, `DELETE /badges/${id}`)).status, 200);
      assert.equal((await send(acme.key, `PATCH /badges/${existing}`, { serial: 's1' })).status, 200);
      const green = { name: 'green' };
      for (const [request, body] of [
        [`POST /badges/${id}/restore`],
        ['POST /badges', green],
        ['POST /badges/batch', { records: [green], on_error: 'continue' }],
      ] as const) {
        const complete = await send(acme.key, request, body);
        assert.match(complete.text, new RegExp(`"existing_id":${existing}\\b`), request);
        const limited = await send(key, request, body);
        assert.deepEqual([limited.status, limited.json.code], [complete.status, complete.json.code]);
        assert.doesNotMatch(limited.text, /existing_id/, request);
      }
    });

    test('a list of children in a body does not reveal children that the caller cannot see', async () => {
      const [full, empty] = [
        await create('visits', { parts: [{ name: 'Hidden' }] }),
        await create('visits', {}),
      ];
      for (const [grants, body] of [
        [[], { parts: [] }],
        [['parts:create'], { parts: [{ name: 'New' }] }],
      ] as const) {
        const { key } = await limitedKey(instance(), acme, ['visits:update', 'visits:read', ...grants]);
        for (const id of [full, empty]) {
          const { status, text } = await send(key, `PATCH /visits/${id}`, body);
          assert.equal(status, 200, text);
          assert.doesNotMatch(text, /Hidden/);
        }
      }
      const { json } = await send(acme.key, `GET /visits/${full}?expand=parts`);
      const { parts } = json.expanded as { parts: { data: readonly { name: string }[] } };
      assert.deepEqual(parts.data.map(({ name }) => name).toSorted(), ['Hidden', 'New']);
    });

    test('the order of the changes that a request makes does not depend on hidden fields', async () => {
      const { key } = await limitedKey(instance(), acme, ['steps:list']);
      const [visit_id, desk_id, ticket] = [
        await create('visits', { code: 'steps' }),
        await create('desks', {}),
        await create('tickets', {}),
      ];
      const records = Array.from({ length: 6 }, (_, index) => ({
        ...{ code: `step ${index}`, visit_id, desk_id, ticket_ids: [ticket] },
      }));
      await settledFeed(instance());
      let { next } = (await instance().call('GET /events?resources=steps&after=now', { key })).json;
      /** Returns the IDs of the next changes in the feed, which may follow their request a little later. */
      const nextChanges = async (count: number) => {
        const order: number[] = [];
        await until(async () => {
          const { json: page } = await instance().call(`GET /events?resources=steps&after=${next}`, { key });
          order.push(...(page.data as readonly { id: number }[]).map(({ id }) => id));
          next = page.next;
          return order.length >= count;
        }, 'appear in the feed');
        return order;
      };
      const { json } = await send(acme.key, 'POST /steps/batch', { records });
      const ids = (json.results as readonly { id: number }[]).map(({ id }) => id);
      await nextChanges(ids.length);
      const [first = 0, second = 0, third = 0, ...others] = ids;
      const requests: readonly (readonly [string, object | undefined, readonly number[]])[] = [
        ['PATCH /steps/batch', { records: ids.map((id) => ({ id, name: 'changed' })) }, ids],
        [
          'POST /steps/batch',
          { match: ['code'], records: records.map(({ code }) => ({ code, name: 'again' })) },
          ids,
        ],
        [`DELETE /tickets/${ticket}`, undefined, ids],
        [`DELETE /desks/${desk_id}`, undefined, ids],
        ['DELETE /steps/batch', { ids: [first, second, third] }, [first, second, third]],
        [`DELETE /visits/${visit_id}`, undefined, others],
      ];
      const orders: (readonly [string, readonly number[]])[] = [];
      for (const [request, body, changed] of requests) {
        // Updates of hidden fields move the rows within the table.
        for (const id of changed.toReversed())
          assert.equal((await send(acme.key, `PATCH /steps/${id}`, { note: request })).status, 200);
        const { status, text } = await send(acme.key, request, body);
        assert.equal(status, 200, text);
        orders.push([request, await nextChanges(changed.length)]);
      }
      assert.deepEqual(
        orders,
        requests.map(([request, , changed]) => [request, changed]),
      );
    });

    test('a logged record that lacks a field meets no condition that tests the field for null', async () => {
      const { key } = await limitedKey(instance(), acme, ['visits:read:live', 'visits:list:live']);
      const closed_at = '2026-03-01T00:00:00Z';
      const closed = await create('visits', { name: 'Closed', closed_at });
      const open = await create('visits', { name: 'Open' });
      for (const id of [closed, open])
        assert.equal((await send(acme.key, `DELETE /visits/${id}`)).status, 200);
      const tables = tablesOf(instance().database);
      const history = async (id: number) => (await send(key, `GET /visits/${id}/history`)).json.data ?? [];
      assert.deepEqual(await history(closed), []);
      assert.equal(((await history(open)) as readonly unknown[]).length, 2);
      // Logged before the field was added, or under a former name.
      await sql`update crm_ledger set record = (record::jsonb - 'closed_at')::text, before = (before::jsonb - 'closed_at')::text
        where object = 'visits' and object_id = ${closed}::bigint`.execute(tables);
      assert.deepEqual(await history(closed), []);
    });

    test('an erased record stays hidden from callers who could not see it, and visible to the others', async () => {
      const { key } = await limitedKey(instance(), acme, ['visits:read:live', 'visits:list:live']);
      const closed_at = '2026-03-01T00:00:00Z';
      const closed = await create('visits', { name: 'Erika Mustermann', closed_at });
      const open = await create('visits', { name: 'Erika Mustermann' });
      await runCommand(instance(), [
        ...['person', 'forget', '--org', 'acme', '--records', 'visits?name=Erika Mustermann', '--erase'],
        ...['--text', 'Erika Mustermann'],
      ]);
      const history = async (id: number) => {
        const { status, json } = await send(key, `GET /visits/${id}/history`);
        return status === 404 ? [] : (json.data as readonly { action: string }[]).map(({ action }) => action);
      };
      assert.deepEqual(await history(closed), []);
      assert.deepEqual(await history(open), ['delete']);
    });
  },
  { sources: await sourcesWith(desks, tickets, visits, parts, steps, badges) },
);
