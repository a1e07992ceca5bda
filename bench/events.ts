import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import pg from 'pg';
import { formatTable } from '../engine/modules/command-line.ts';
import { eventsTo, startReceiver } from '../test/support/receiver.ts';
import { median, quantile } from './load.ts';
import { startBenchService } from './service.ts';

/** Cost and throughput of event subscriptions. */
export interface EventFigures {
  /** Create requests per second, by the number of matching subscriptions. */
  readonly writes: readonly { readonly subscriptions: number; readonly rate: number }[];
  /**
   * Time between the response to a create request and the arrival of its event, in milliseconds, at `rate` requests per
   * second.
   */
  readonly delay: { readonly rate: number; readonly p50: number; readonly p99: number };
  /** Number of queued events, and number of events delivered per second. */
  readonly backlog: { readonly events: number; readonly rate: number };
}

const waitUntil = async (isDone: () => Promise<boolean>): Promise<void> => {
  while (!(await isDone())) await pause(10);
};

const connections = 16;
/** Number of create requests per second while the delay is measured. */
const pacedRate = 500;

/**
 * Measures event subscriptions. The receiver runs in this process.
 * @param databaseUrl an empty database
 * @param backlog number of queued events
 */
export async function measureEvents(
  databaseUrl: string,
  seconds: number,
  backlog: number,
): Promise<EventFigures> {
  const folder = mkdtempSync(join(tmpdir(), 'crm-events-'));
  const receiver = await startReceiver();
  const settings = join(folder, 'config.yaml');
  writeFileSync(settings, JSON.stringify(eventsTo(receiver.port)));
  const service = await startBenchService({
    DATABASE_URL: databaseUrl,
    DATA_DIR: folder,
    MIGRATE_ON_START: 'true',
    CRM_CONFIG: settings,
  });
  const database = new pg.Client(databaseUrl);
  await database.connect();
  const call = async (path: string, body: object, key: string) => {
    const response = await fetch(service.url + path, {
      method: 'POST',
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      body: JSON.stringify(body),
    });
    if (response.status >= 300) throw new Error(await response.text());
    return (await response.json()) as { id: number };
  };
  try {
    const key = String(service.printed.key);
    // The demo key's grants do not allow it to manage subscriptions.
    await database.query(
      `insert into crm_grants (organization_id, profile_id, object, action) select organization_id, profile_id, 'events', '*' from crm_api_keys`,
    );
    await pause(1000);
    const create = () => call('/api/v1/leads', { last_name: 'Ames' }, key);
    const rate = async () => {
      let count = 0;
      const end = performance.now() + seconds * 1000;
      await Promise.all(
        Array.from({ length: connections }, async () => {
          for (; performance.now() < end; count++) await create();
        }),
      );
      return count / seconds;
    };
    const subscribe = () =>
      call('/events/subscriptions', { url: `${receiver.url}/events`, resources: ['leads'] }, key);
    const isEmpty = async () =>
      (await database.query(`select from crm_event_deliveries where status = 'waiting' limit 1`)).rowCount ===
      0;
    await rate();
    const writes = [{ subscriptions: 0, rate: await rate() }];
    await subscribe();
    writes.push({ subscriptions: 1, rate: await rate() });
    await waitUntil(isEmpty);

    const responded = new Map<number, number>();
    const firstIndex = receiver.received.length;
    const requests: Promise<void>[] = [];
    const startedAt = performance.now();
    for (let requestCount = 0; requestCount < pacedRate * seconds; requestCount++) {
      const due = startedAt + (requestCount * 1000) / pacedRate;
      if (due > performance.now()) await pause(due - performance.now());
      requests.push(create().then(({ id }) => void responded.set(id, performance.now())));
    }
    await Promise.all(requests);
    const elapsedSeconds = (performance.now() - startedAt) / 1000;
    await waitUntil(async () => receiver.received.length >= firstIndex + responded.size);
    const delays = receiver.received
      .slice(firstIndex)
      .map(({ event, at }) => Math.max(0, at - (responded.get(event.data.id) ?? at)));
    const delay = {
      rate: responded.size / elapsedSeconds,
      p50: median(delays),
      p99: quantile(delays, 0.99),
    };

    await database.query(`update crm_event_subscriptions set state = 'off'`);
    for (let createdCount = 0; createdCount < backlog; createdCount += 1000)
      await call('/api/v1/leads/batch', { records: Array(1000).fill({ last_name: 'Ames' }) }, key);
    const receivedBefore = receiver.received.length;
    const start = performance.now();
    await database.query(`update crm_event_subscriptions set state = 'on'`);
    await waitUntil(async () => receiver.received.length >= receivedBefore + backlog);
    const backlogFigures = { events: backlog, rate: backlog / ((performance.now() - start) / 1000) };

    for (let count = 1; count < 10; count++) await subscribe();
    writes.push({ subscriptions: 10, rate: await rate() });
    return { writes, delay, backlog: backlogFigures };
  } finally {
    await database.end();
    await service.stop();
    await receiver.close();
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Formats the figures as a table with their goals. */
export function eventsReport({ writes, delay, backlog }: EventFigures): string {
  const goal = (value: number, limit: number) => [`≤ ${limit}`, value <= limit ? 'met' : 'missed'];
  return formatTable(
    ['events', '', 'goal', ''],
    [
      ...writes.map(({ subscriptions, rate }) => [
        `creates/s, ${subscriptions} subscriptions`,
        rate.toFixed(0),
        '',
        '',
      ]),
      [`delay p50 ms, ${delay.rate.toFixed(0)} creates/s`, delay.p50.toFixed(0), ...goal(delay.p50, 100)],
      ['delay p99 ms', delay.p99.toFixed(0), ...goal(delay.p99, 1000)],
      [`events/s, backlog of ${backlog.events}`, backlog.rate.toFixed(0), '', ''],
    ],
  );
}
