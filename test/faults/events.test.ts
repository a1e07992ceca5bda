// Events while a process is killed, the database restarts and the receiver sometimes fails: no event is lost,
// and the events for each record arrive in order.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { sql } from 'kysely';
import { tablesOf } from '../../engine/tables/handle.ts';
import { diceOf } from '../support/dice.ts';
import { type Answer, drivers } from '../support/instance.ts';
import { onStored, settingsFile } from '../support/partners.ts';
import { crm, type Service, serve, storageOfItsOwn, until } from '../support/process.ts';
import { eventsTo, startReceiver } from '../support/receiver.ts';

const writers = 6;
const dice = diceOf(11);

/**
 * Includes the embedded database only with `--whole`, because each start takes seconds and the tested code is
 * the same.
 */
const tested = process.argv.includes('--whole')
  ? drivers
  : drivers.filter((driver) => driver === 'postgresql');

for (const driver of tested) {
  describe(`events while processes are killed and the database restarts (${driver})`, () => {
    let storage: Awaited<ReturnType<typeof storageOfItsOwn>>;
    let key: string;
    const nodes: Service[] = [];
    let receiver: Awaited<ReturnType<typeof startReceiver>>;
    /** Acknowledged events by record ID, in the order of arrival. */
    const taken = new Map<number, number[]>();
    before(async () => {
      receiver = await startReceiver();
      // Retry delays double, so an event that failed five times would delay the test by half a minute.
      const failures = new Map<unknown, number>();
      receiver.behave('/events', (response, { event: { data }, headers }) => {
        const failed = failures.get(headers['webhook-id']) ?? 0;
        if (dice() < 0.3 && failed < 2) {
          failures.set(headers['webhook-id'], failed + 1);
          return response.writeHead(500).end();
        }
        taken.set(data.id, [...(taken.get(data.id) ?? []), data.version]);
        return response.writeHead(204).end();
      });
      storage = await storageOfItsOwn(driver);
      const environment = {
        ...storage.environment,
        ...settingsFile(eventsTo(receiver.port)).environment,
        AUTH_SECRETS: 'a secret that all nodes of the test share',
      };
      storage = { ...storage, environment };
      nodes.push(await serve(environment));
      key = String(nodes[0]?.printed.key);
    });
    after(async () => {
      for (const node of nodes) await node.kill();
      await receiver.close();
      await storage.remove();
    });

    test('delivers every change in the order of its record', async () => {
      // Only one process can open the embedded database.
      if (driver === 'embedded') await nodes.pop()?.kill();
      const hook = [
        `${receiver.url}/events`,
        '--org',
        'demo',
        '--resources',
        'leads',
        '--profile',
        'administrator',
      ];
      const made = await crm(['subscription', 'create', ...hook], storage.environment);
      assert.equal(made.code, 0, made.stderr);
      nodes.push(await serve(storage.environment));
      const choose = <T>(all: readonly T[]): T => all[Math.floor(dice() * all.length)] as T;
      const call = (request: string, body?: unknown): Promise<Answer | undefined> =>
        choose(nodes)
          .call(request, { key, ...(body !== undefined && { body }) })
          // The process was killed, and it is unknown whether it stored the write.
          .catch(() => pause(20).then(() => undefined));
      const ids: number[] = [];
      let [isWritten, written] = [false, 0];
      const write = async () => {
        while (!isWritten) {
          const body = { last_name: `n${written}` };
          const answer = await (dice() < 0.4 || ids.length === 0
            ? call('POST /api/v1/leads', body)
            : call(`PATCH /api/v1/leads/${choose(ids.slice(-30))}`, body));
          await pause(20);
          if (answer === undefined || answer.status >= 300) continue;
          written++;
          if (answer.status === 201) ids.push(Number(answer.json.id));
        }
      };
      const writing = Promise.all(Array.from({ length: writers }, write));
      await until(async () => written >= 60 && taken.size > 5, 'write and send');
      await nodes[0]?.kill();
      // Deliveries that the process had claimed are leased for 20 s. The test does not wait for that unless
      // another node delivers too.
      if (driver === 'embedded')
        await onStored(storage.environment, ({ database }) =>
          sql`update crm_event_deliveries set next_at = now() where status = 'waiting'`.execute(
            tablesOf(database),
          ),
        );
      nodes[0] = await serve(storage.environment);
      const { server } = storage;
      if (server) {
        await server.pause();
        await server.resume();
        const before = written;
        await until(async () => written >= before + 30, 'write and send again');
      }
      isWritten = true;
      await writing;
      const versions = new Map<number, number>();
      for (const id of ids) {
        // The database has just restarted.
        await until(async () => {
          const changes = await call(`GET /api/v1/leads/${id}/history`);
          if (changes?.status !== 200) return false;
          const [last] = changes.json.data as { version: number }[];
          versions.set(id, Number(last?.version));
          return true;
        }, 'the history');
      }
      const lacks = () =>
        [...versions].filter(([id, version]) => taken.get(id)?.at(-1) !== version).map(([id]) => id);
      await until(async () => lacks().length === 0, 'deliver all');
      for (const [id, came] of taken) {
        const sorted = came.toSorted((a, b) => a - b);
        assert.deepEqual(came, sorted, `in order of lead ${id}`);
        const first = came[0] ?? 0;
        const whole = Array.from({ length: (came.at(-1) ?? 0) - first + 1 }, (_, n) => first + n);
        assert.deepEqual([...new Set(came)], whole, `all events of lead ${id}`);
        assert.equal(first, 1);
      }
      console.log(`${written} writes, ${receiver.received.length} requests, ${taken.size} records`);
    });
  });
}
