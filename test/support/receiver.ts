// A receiver of events. It stores requests and responds as configured by the test.
import { createServer, type IncomingHttpHeaders, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { sql } from 'kysely';
import { tablesOf } from '../../engine/tables/handle.ts';
import type { Instance } from './instance.ts';
import { until } from './process.ts';

/** A received event. */
export interface Received {
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  readonly text: string;
  readonly event: {
    readonly type: string;
    readonly timestamp: string;
    readonly data: {
      readonly position: string;
      readonly action: string;
      readonly resource: string;
      readonly id: number;
      readonly version: number;
      readonly changed: readonly string[];
      readonly previous?: Readonly<Record<string, unknown>> | null;
      readonly after?: Readonly<Record<string, unknown>> | null;
      readonly record: Readonly<Record<string, unknown>> | null;
    };
  };
  /** Time of receipt (performance.now()). */
  readonly at: number;
}

/** A receiver's behavior: respond with this status, or call this function. */
export type Behaviour = number | ((response: ServerResponse, received: Received) => void);

/** Starts a receiver on a free port. */
export async function startReceiver() {
  const received: Received[] = [];
  const behaviours = new Map<string, Behaviour>();
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      const text = Buffer.concat(chunks).toString();
      const path = request.url ?? '/';
      const event = JSON.parse(text || '{}') as Received['event'];
      const entry = { path, headers: request.headers, text, event, at: performance.now() };
      const behave = behaviours.get(path) ?? 204;
      received.push(entry);
      if (typeof behave === 'number') response.writeHead(behave).end();
      else behave(response, entry);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  return {
    port,
    url: `http://127.0.0.1:${port}`,
    received,
    /** Returns the events received at a path. */
    at: (path: string) => received.filter((event) => event.path === path),
    /** Sets the behavior for a path. */
    behave: (path: string, behaviour: Behaviour) => behaviours.set(path, behaviour),
    close: async () => {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

/** Returns settings that allow events to be sent to receivers on these ports. */
export const eventsTo = (...ports: readonly number[]) => ({
  events: { allow_private_addresses: true, allow_http: true, ports },
});

/**
 * Waits until the end of the change feed is after all changes that have been made. Until then, an older transaction is
 * running (for example an automatic ANALYZE), and a new subscription would also receive changes made before it.
 */
export const settledFeed = ({ database }: Pick<Instance, 'database'>): Promise<void> =>
  until(async () => {
    const { rows } =
      await sql`select from crm_ledger where transaction >= pg_snapshot_xmin(pg_current_snapshot()) limit 1`.execute(
        tablesOf(database),
      );
    return rows.length === 0;
  }, 'the end of older transactions');

/**
 * Pauses subscriptions while changes are made, so that all events are sent after the last change, however long the changes
 * take.
 * @param count number of deliveries to each subscription that the changes queue
 * @param whenQueued called before the events are sent
 */
export async function whilePaused<T>(
  { database }: Pick<Instance, 'database'>,
  subscriptions: readonly number[],
  count: number,
  change: () => Promise<T>,
  whenQueued: (result: T) => Promise<unknown> = async () => {},
): Promise<T> {
  const tables = tablesOf(database);
  const ids = sql`(${sql.join(subscriptions.map((id) => sql`${id}::bigint`))})`;
  const pause = (end: string) =>
    sql`update crm_event_subscriptions set paused_until = ${end}::timestamptz where id in ${ids}`.execute(
      tables,
    );
  await pause('infinity');
  const result = await change();
  await until(async () => {
    const { rows } =
      await sql`select subscription_id from crm_event_deliveries where subscription_id in ${ids}
      group by 1 having count(*) >= ${count}::int`.execute(tables);
    return rows.length === subscriptions.length;
  }, 'all events to be queued');
  await whenQueued(result);
  await pause('-infinity');
  return result;
}
