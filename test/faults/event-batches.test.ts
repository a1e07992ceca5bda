// Batches of events when a process is killed: stored batches are sent with the same IDs and events, no event is lost, and
// no event is in two batches, although two nodes create them.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { sql } from 'kysely';
import { tablesOf } from '../../engine/tables/handle.ts';
import { drivers } from '../support/instance.ts';
import { onStored, settingsFile } from '../support/partners.ts';
import { crm, type Service, serve, storageOfItsOwn, until } from '../support/process.ts';
import { patient } from '../support/promised.ts';
import { eventsTo, type Received, startReceiver } from '../support/receiver.ts';

/** Events per batch, and events that are written before and after the process is killed. */
const [size, earlierCount, laterCount] = [10, 45, 30];

for (const driver of drivers) {
  describe(`batches of events while a process is killed (${driver})`, () => {
    let storage: Awaited<ReturnType<typeof storageOfItsOwn>>;
    let receiver: Awaited<ReturnType<typeof startReceiver>>;
    const nodes: Service[] = [];
    let environment: Readonly<Record<string, string>>;
    before(async () => {
      receiver = await startReceiver();
      storage = await storageOfItsOwn(driver);
      environment = {
        ...patient,
        ...storage.environment,
        ...settingsFile(eventsTo(receiver.port)).environment,
        AUTH_SECRETS: 'a secret that all nodes of the test share',
      };
    });
    after(async () => {
      for (const node of nodes) await node.kill();
      await receiver.close();
      await storage.remove();
    });
    const idOf = ({ headers }: Received) => String(headers['webhook-id']);
    const eventsIn = ({ text }: Received) =>
      (JSON.parse(text) as { id: string; data: { id: number } }[]).map(({ id, data }) => `${id} ${data.id}`);

    test('sends stored batches unchanged, and every event in exactly one batch', async () => {
      nodes.push(await serve(environment));
      const key = String(nodes[0]?.printed.key);
      await nodes.pop()?.kill();
      const made = await crm(
        [
          ...['subscription', 'create', `${receiver.url}/events`, '--org', 'demo', '--resources', 'leads'],
          ...['--profile', 'administrator', '--batch-events', String(size), '--batch-wait', '1'],
        ],
        environment,
      );
      assert.equal(made.code, 0, made.stderr);
      // The first batch is never answered, so complete batches wait behind it.
      receiver.behave('/events', () => {});
      const start = async () => nodes.push(await serve(environment));
      await start();
      // Only one process can open the embedded database.
      if (driver === 'postgresql') await start();
      const write = async (count: number) => {
        for (let index = 0; index < count; index++) {
          const node = nodes[index % nodes.length];
          const answer = await node?.call('POST /api/v1/leads', { key, body: { last_name: `n${index}` } });
          assert.equal(answer?.status, 201, answer?.text);
        }
      };
      await write(earlierCount);
      await until(() => receiver.received.length > 0, 'the first request');
      const storedBatches = () =>
        onStored(environment, async ({ database }) => {
          const { rows } = await sql<{ batch: string; events: string[] }>`
            select 'batch_' || b.subscription_id || '_' || b.event_id as batch,
              array(select 'evt_' || d.subscription_id || '_' || d.event_id || ' ' || d.object_id
                from crm_event_deliveries d where d.batch_id = b.id order by d.id) as events
            from crm_event_deliveries b where b.action = 'batch' and b.status = 'waiting' order by b.id`.execute(
            tablesOf(database),
          );
          return rows;
        });
      // On PostgreSQL, the second batch is visible before the process is killed.
      if (driver === 'postgresql')
        await until(async () => (await storedBatches()).length > 1, 'a batch that was not sent');
      for (const node of nodes.splice(0)) await node.kill();
      const stored = await storedBatches();
      assert.ok(stored.length > 0);
      const unsent = stored.filter(
        ({ batch }) => !receiver.received.some((request) => idOf(request) === batch),
      );
      if (driver === 'postgresql') assert.ok(unsent.length > 0);
      await onStored(environment, ({ database }) =>
        sql`update crm_event_deliveries set next_at = now() where action = 'batch' and status = 'waiting'`.execute(
          tablesOf(database),
        ),
      );
      receiver.behave('/events', 204);
      const sentBefore = receiver.received.length;
      await start();
      if (driver === 'postgresql') await start();
      await write(laterCount);
      const sent = () => receiver.received.slice(sentBefore);
      const total = earlierCount + laterCount;
      await until(() => new Set(sent().flatMap(eventsIn)).size === total, `${total} events`);
      for (const { batch, events } of stored)
        for (const request of receiver.received.filter((each) => idOf(each) === batch))
          assert.deepEqual(eventsIn(request), events, batch);
      const batchesByEvent = new Map<string, Set<string>>();
      for (const request of receiver.received)
        for (const event of eventsIn(request))
          batchesByEvent.set(event, (batchesByEvent.get(event) ?? new Set()).add(idOf(request)));
      assert.equal(batchesByEvent.size, total);
      for (const [event, batches] of batchesByEvent) assert.equal(batches.size, 1, event);
      const order = sent()
        .flatMap(eventsIn)
        .map((event) => Number(event.split(' ')[1]));
      assert.deepEqual(
        order,
        order.toSorted((a, b) => a - b),
        'in the order of the change log',
      );
    });
  });
}
