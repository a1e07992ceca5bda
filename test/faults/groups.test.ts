// Writes executed in one batch: each request receives its own response, and a failing write does not affect
// the other writes.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import fc from 'fast-check';
import type { Runnable, SharedConnections } from '../../engine/database/database.ts';
import { bodyText } from '../support/arbitraries.ts';
import { everyType } from '../support/every-type.ts';
import { type Answer, type Instance, type Organization, startInstance } from '../support/instance.ts';
import { activityOf } from '../support/people.ts';
import { connected } from '../support/postgres.ts';
import { until } from '../support/process.ts';
import { within } from '../support/promised.ts';
import { exactRecord } from '../support/reading.ts';
import { partsOf } from '../support/scheduled.ts';
import { sourcesWith } from '../support/sources.ts';

describe('batched writes', () => {
  let instance: Instance;
  let groups: SharedConnections;
  let organizations: readonly Organization[];
  /** Numbers of writes executed in a batch and of writes that had to run alone after a failed batch. */
  const counts = { together: 0, alone: 0 };

  before(async () => {
    instance = await startInstance('postgresql', {
      sources: await sourcesWith(...everyType),
    });
    const { writeBatcher } = partsOf(instance.database);
    assert.ok(writeBatcher);
    groups = writeBatcher;
    organizations = await Promise.all(['one', 'two', 'three'].map((slug) => instance.organization(slug)));
    const { run } = groups;
    const counting: SharedConnections['run'] = async (...given) => {
      const rows = await run(...given);
      counts[rows === undefined ? 'alone' : 'together']++;
      return rows;
    };
    Object.assign(groups, { run: counting });
  });
  after(() => instance.close());

  const organizationOf = (index: number) => organizations[index % organizations.length] as Organization;
  /** Waits until the batch connections are open and writes of every organization are batched. */
  const ready = () =>
    until(async () => {
      const before = counts.together;
      const sent = await Promise.all(organizations.map(({ key }) => post(key, {})));
      return sent.every(({ status }) => status === 201) && counts.together === before + sent.length;
    }, 'groups to take writes');
  const post = (key: string, body: unknown, name = 'leads') =>
    instance.call(`POST /api/v1/${name}`, { key, body });
  const idOf = ({ status, json, text }: Answer) => {
    assert.equal(status, 201, text);
    return String(json.id);
  };

  test('returns own responses, records and activity for 100 concurrent writes of every kind in three organizations', async () => {
    // On a busy machine, a batch can be late, in which case its writes run alone.
    await until(areBatched, 'batch every write');
  });
  /** Sends writes and checks their responses. @returns whether all of them were batched */
  async function areBatched(): Promise<boolean> {
    await ready();
    const { together } = counts;
    const made = await Promise.all(
      Array.from({ length: 100 }, (_, index) =>
        post(organizationOf(index).key, { last_name: `made ${index}`, lead_score: index }),
      ),
    );
    for (const [index, { json }] of made.entries()) {
      assert.equal(json.last_name, `made ${index}`);
      assert.equal(String(json.organization_id), organizationOf(index).id);
      assert.equal(String(json.owner_id), organizationOf(index).user);
    }
    const verbs = ['PUT', 'PATCH', 'DELETE'] as const;
    const changed = await Promise.all(
      made.map((answer, index) =>
        instance.call(`${verbs[index % 3]} /api/v1/leads/${idOf(answer)}`, {
          key: organizationOf(index).key,
          ...(index % 3 < 2 && { body: { last_name: `changed ${index}` } }),
        }),
      ),
    );
    for (const [index, { status, json, text }] of changed.entries()) {
      assert.equal(status, 200, text);
      if (index % 3 === 2) assert.equal(text, '{"ok":true}');
      else assert.deepEqual([json.id, json.last_name], [made[index]?.json.id, `changed ${index}`]);
      if (index % 3 === 1) assert.equal(json.lead_score, index, 'PATCH leaves other fields unchanged');
    }
    const isBatched = counts.together - together === 200;
    for (const organization of organizations) {
      const ids = made.filter((_, index) => organizationOf(index) === organization).map(idOf);
      const activity = await activityOf(instance, organization.id);
      for (const id of ids) {
        const rows = activity.filter(({ did }) => did.endsWith(` leads ${id}`));
        assert.equal(rows.length, 2, 'the creation and the change');
        assert.equal(new Set(rows.map(({ requestId }) => requestId)).size, 2);
      }
    }
    return isBatched;
  }

  test('fails only the writes with a missing record or an invalid reference', async () => {
    await ready();
    const { key } = organizationOf(0);
    const ids = (await Promise.all(Array.from({ length: 10 }, () => post(key, {})))).map(idOf);
    const foreign = idOf(await post(organizationOf(1).key, { last_name: 'foreign' }));
    const answers = await Promise.all(
      [...ids, foreign, '987654321987'].map((id) =>
        instance.call(`PUT /api/v1/leads/${id}`, { key, body: { last_name: 'mine' } }),
      ),
    );
    assert.deepEqual(
      answers.map(({ status }) => status),
      [...ids.map(() => 200), 404, 404],
    );
    const read = await instance.call(`GET /api/v1/leads/${foreign}`, { key: organizationOf(1).key });
    assert.equal(read.json.last_name, 'foreign');

    // On a busy machine, a late write can exclude the organization from batches before, or the time for which it is
    // excluded can be over before it is checked.
    await until(async () => {
      await ready();
      const { alone } = counts;
      const contacts = await Promise.all(
        Array.from({ length: 12 }, (_, index) =>
          post(organizationOf(index).key, { account_id: index === 5 ? 987654321 : null }, 'contacts'),
        ),
      );
      const laneOf = (index: number) => groups.laneOf(statement, organizationOf(index).id);
      const isExcluded = laneOf(5) === undefined && laneOf(4) === 'short write';
      assert.deepEqual(
        contacts.map(({ status }) => status),
        contacts.map((_, index) => (index === 5 ? 400 : 201)),
      );
      return counts.alone > alone && isExcluded;
    }, "fail a batch and use the pool for the organization's writes for a while");
  });

  /** A write that could join a batch. */
  const statement = {
    lane: 'write',
    name: 'x',
    text: '',
    values: [],
    many: { name: 'x_many', text: '', differ: 0, lists: false },
  } as const;

  test('large statements, reads, and statements without a name or a batch form are not batched', async () => {
    const laneOf = (changes: Partial<Runnable>) =>
      groups.laneOf({ ...statement, ...changes }, 'of no other test');
    const longest = 'x'.repeat(64 * 1024);
    await until(() => laneOf({}) === 'short write', 'a connection');
    const others: readonly Partial<Runnable>[] = [
      { values: ['x', null, longest] },
      { values: [['x', longest]] },
      { lane: 'read' },
      { lane: 'batch' },
      { name: '' },
    ];
    for (const changes of others)
      assert.equal(laneOf(changes), undefined, JSON.stringify(changes).slice(0, 50));
    const { many: _, ...single } = statement;
    assert.equal(groups.laneOf(single, 'of no other test'), undefined);
    await until(() => laneOf({ values: [longest] }) === 'short write', 'a connection for the longest value');
  });

  test('executes concurrent changes to one record sequentially without lock waits', async () => {
    const { key } = organizationOf(0);
    // On a busy machine, a batch can be late, in which case its writes run alone.
    await until(async () => {
      await ready();
      const { alone } = counts;
      const id = idOf(await post(key, {}));
      const answers = await within(
        60_000,
        Promise.all(
          Array.from({ length: 30 }, (_, index) =>
            instance.call(`PATCH /api/v1/leads/${id}`, { key, body: { lead_score: index } }),
          ),
        ),
      );
      assert.deepEqual(new Set(answers.map(({ status }) => status)), new Set([200]));
      const versions = answers.map(({ headers }) => Number(/\d+/.exec(String(headers.get('etag')))));
      assert.equal(new Set(versions).size, 30, 'no write is lost');
      return counts.alone === alone && versions.at(-1) === 31;
    }, 'batch every write in order');
  });

  test('delays only the organization of a locked record, not the rest of its batch', async () => {
    await ready();
    const url = String(instance.config.environment.DATABASE_URL);
    const id = idOf(await post(organizationOf(0).key, {}));
    const others = await Promise.all(organizations.slice(1).map(({ key }) => post(key, {})));
    await connected(url, async (client) => {
      await client.query('begin');
      await client.query('select 1 from leads where id = $1 for update', [id]);
      let isOver = false;
      const locked = instance
        .call(`PUT /api/v1/leads/${id}`, { key: organizationOf(0).key, body: {} })
        .finally(() => {
          isOver = true;
        });
      const rest = await Promise.all(
        others.map((answer, index) =>
          instance.call(`PUT /api/v1/leads/${idOf(answer)}`, {
            key: organizationOf(index + 1).key,
            body: {},
          }),
        ),
      );
      assert.deepEqual(
        rest.map(({ status }) => status),
        [200, 200],
      );
      assert.equal(isOver, false, 'the write is still waiting');
      await client.query('commit');
      assert.equal((await locked).status, 200);
    });
  });

  test('keeps acknowledged writes exactly once when a connection is closed, and returns 500 for the others', async () => {
    await ready();
    const url = String(instance.config.environment.DATABASE_URL);
    const { key, id: organization } = organizationOf(0);
    let isOver = false;
    const sabotage = connected(url, async (client) => {
      while (!isOver) {
        await client.query(
          `select pg_terminate_backend(pid), pg_sleep(0.02) from pg_stat_activity
           where query like 'with \\_in as%' and pid <> pg_backend_pid()`,
        );
      }
    });
    const answers: [mark: string, answer: Answer][] = [];
    await Promise.all(
      Array.from({ length: 16 }, async (_, client) => {
        for (let number = 0; number < 40; number++) {
          const mark = `killed ${client}-${number}`;
          answers.push([mark, await post(key, { company: mark })]);
        }
      }),
    );
    isOver = true;
    await sabotage;
    const stored = await connected(url, async (client) => {
      const text = `select company, count(*)::int as times from leads where organization_id = $1 and company like 'killed %' group by 1`;
      const { rows } = await client.query<{ company: string; times: number }>(text, [organization]);
      return new Map(rows.map(({ company, times }) => [company, times]));
    });
    for (const [mark, { status, text }] of answers) {
      if (status === 201) assert.equal(stored.get(mark), 1, mark);
      else assert.equal(status, 500, text);
      assert.ok((stored.get(mark) ?? 0) <= 1, `${mark} is stored twice`);
    }
    assert.ok(answers.some(([, { status }]) => status === 201));
  });

  test('a connection closed during a write fails this write, and later writes to its record are executed', async () => {
    const url = String(instance.config.environment.DATABASE_URL);
    const { key } = organizationOf(0);
    const id = idOf(await post(key, {}));
    const patch = (company: string) => instance.call(`PATCH /api/v1/leads/${id}`, { key, body: { company } });
    const closing = () =>
      connected(url, async (client) => {
        await client.query('begin');
        await client.query('select 1 from leads where id = $1 for update', [id]);
        const writes = ['first', 'second', 'third'].map(patch);
        // The write's time limit is short, so the server itself waits for the write and closes its connection.
        await client.query(`do $$ begin
        for attempt in 1..10000 loop
          perform pg_terminate_backend(pid, 60000) from pg_stat_activity
            where datname = current_database() and wait_event_type = 'Lock';
          exit when found;
          perform pg_sleep(0.001), pg_stat_clear_snapshot();
        end loop;
      end $$`);
        await client.query('commit');
        return Promise.all(writes);
      });
    // The write can stop waiting just before its connection is closed, in which case it runs elsewhere. The connection
    // must be one for batches, whose other writes show that the failed write was among them.
    await until(async () => {
      await ready();
      const { together } = counts;
      const statuses = (await closing()).map(({ status }) => status).sort();
      if (statuses[2] === 200 || counts.together !== together + 2) return false;
      assert.deepEqual(statuses, [200, 200, 500]);
      return true;
    }, 'close the connection of a write');
    const last = await patch('last');
    assert.deepEqual([last.status, last.json.company], [200, 'last']);
  });

  test('writes the same values in a batch as alone', async () => {
    await ready();
    const loose = instance.resources.find(({ name }) => name === 'loose');
    assert.ok(loose);
    const { key } = organizationOf(0);
    await fc.assert(
      fc.asyncProperty(
        fc.array(bodyText(loose, { own: [], foreign: [] }), { minLength: 4, maxLength: 8 }),
        async (bodies) => {
          const send = (body: string) => instance.call('POST /api/v1/loose', { key, body });
          const together = await Promise.all(bodies.map(send));
          for (const [index, answer] of together.entries()) {
            const alone = await send(bodies[index] ?? '');
            assert.equal(answer.status, alone.status, bodies[index]);
            if (alone.status !== 201) continue;
            const strip = ({ text }: Answer) => ({ ...exactRecord(text), id: undefined });
            assert.deepEqual(strip(answer), strip(alone));
          }
        },
      ),
      { numRuns: 40 },
    );
  });
});
