// Generates load on a service and keeps a ledger of every write. Acknowledged writes must be stored, and
// unacknowledged writes might be.
import { setTimeout as pause } from 'node:timers/promises';
import type { Instance } from './instance.ts';
import { until } from './process.ts';
import { type ExactRecord, exactRecord, numberText, walk } from './reading.ts';

/** A record that only one client creates, changes and deletes. */
interface Entry {
  readonly name: string;
  id: string;
  /**
   * Versions that might be stored, where undefined represents a missing record. There are several if a
   * response was lost.
   */
  states: readonly (number | undefined)[];
}

/** The current target of requests. It changes with each restart. */
export interface Target {
  readonly url: string;
  readonly key: string;
}

/** Outcome of the load. */
export interface Findings {
  readonly requests: number;
  /** Number of writes with a successful response. */
  readonly acknowledged: number;
  /** Number of requests without a successful response. */
  readonly failed: number;
  /** Acknowledged writes that are not stored as they were sent. */
  readonly lost: readonly string[];
  /** Records that are stored twice or were never sent. */
  readonly doubled: readonly string[];
  /** Responses that no fault can explain, for example 400. */
  readonly wrong: readonly string[];
}

/** A running load. */
export interface Load {
  readonly acknowledged: () => number;
  /** Returns the number of requests without a successful response. */
  readonly failed: () => number;
  /** Returns the periods longer than 20 ms without an acknowledged write, in performance.now() time. */
  readonly gaps: () => readonly (readonly [from: number, to: number])[];
  /** Waits for requests in flight and sends no more. */
  readonly stop: () => Promise<void>;
  /** Compares the service's records with the ledger after the load has stopped. */
  readonly check: (service: Pick<Instance, 'call'>, key: string) => Promise<Findings>;
}

/** Time after which a request is considered hung, in milliseconds. */
const waitMs = 20_000;
const shortestGapMs = 20;
const path = '/api/v1/leads';

const bodyOf = (name: string, version: number) => ({
  last_name: name,
  rating: 'load',
  lead_score: version,
  // Varies in length to reveal truncation.
  description: '☃'.repeat((version * 37 + name.length) % 300),
});

/** Returns a record's version if all of its fields agree on it. */
function versionOf(record: ExactRecord): number | undefined {
  const version = Number(numberText(record.lead_score));
  const body = bodyOf(String(record.last_name), version);
  return record.description === body.description && record.rating === body.rating ? version : undefined;
}

/** Starts a load with several clients, each of which sends one request at a time. */
export function startLoad(target: () => Target, clients: number): Load {
  const ledger: Entry[] = [];
  const counts = { requests: 0, acknowledged: 0, failed: 0 };
  const lost: string[] = [];
  const wrong: string[] = [];
  const gaps: [number, number][] = [];
  let last = performance.now();
  let stopped = false;

  /** Returns the text of a successful response, or undefined if there was no response and the outcome is unknown. */
  async function send(method: string, id: string, body?: object): Promise<string | undefined> {
    const { url, key } = target();
    counts.requests++;
    try {
      const response = await fetch(`${url}${path}${id === '' ? '' : `/${id}`}`, {
        method,
        signal: AbortSignal.timeout(waitMs),
        headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      });
      const text = await response.text();
      if (response.ok) return text;
      if (response.status === 404) lost.push(`${method} ${id}: ${text}`);
      else if (response.status < 500) wrong.push(`${method} ${id}: ${response.status} ${text}`);
    } catch {
      // Disconnected, rejected or timed out, which is how a client sees the fault.
    }
    counts.failed++;
    await pause(100);
    return undefined;
  }

  /**
   * Sends a write.
   * @returns whether the write was acknowledged (otherwise, the entry keeps every possible state)
   */
  async function write(entry: Entry, method: string, next: number | undefined): Promise<boolean> {
    const before = entry.states;
    entry.states = [...before, next];
    const text = await send(method, entry.id, next === undefined ? undefined : bodyOf(entry.name, next));
    if (text === undefined) return false;
    counts.acknowledged++;
    const now = performance.now();
    if (now - last > shortestGapMs) gaps.push([last, now]);
    last = now;
    entry.states = [next];
    if (method === 'POST') entry.id = numberText(exactRecord(text).id);
    return true;
  }

  async function client(number: number): Promise<void> {
    const own: Entry[] = [];
    for (let count = 0; !stopped; count++) {
      const at = Math.floor(Math.random() * own.length);
      const entry = own[at];
      const version = entry?.states[0];
      const turn = count % 10;
      if (entry === undefined || version === undefined || turn < 4) {
        const made: Entry = { name: `${number} ${count}`, id: '', states: [undefined] };
        ledger.push(made);
        if (await write(made, 'POST', 0)) own.push(made);
      } else if (turn < 7) {
        if (!(await write(entry, 'PUT', version + 1))) own.splice(at, 1);
      } else if (turn < 9) {
        const text = await send('GET', entry.id);
        if (text !== undefined && versionOf(exactRecord(text)) !== version) {
          lost.push(`${entry.name}: ${text.slice(0, 300)} while version ${version} was acknowledged`);
        }
      } else {
        await write(entry, 'DELETE', undefined);
        own.splice(at, 1);
      }
    }
  }

  const running = Promise.all(Array.from({ length: clients }, (_, number) => client(number)));
  return {
    acknowledged: () => counts.acknowledged,
    failed: () => counts.failed,
    gaps: () => [...gaps, [last, performance.now()]],
    stop: async () => {
      stopped = true;
      await running;
    },
    check: async (service, key) => {
      // Clients retry a list that is too slow, as it can be on a busy machine.
      const call: Instance['call'] = async (request, options) => {
        let answer = await service.call(request, options);
        await until(async () => {
          if (answer.status < 500) return true;
          answer = await service.call(request, options);
          return false;
        }, request);
        return answer;
      };
      const found = (await walk({ call }, path, 'rating=load&sort=id', key)).flat();
      const doubled: string[] = [];
      const byName = new Map<string, ExactRecord>();
      for (const record of found) {
        const name = String(record.last_name);
        if (byName.has(name)) doubled.push(`${name} is there twice`);
        byName.set(name, record);
      }
      for (const { name, id, states } of ledger) {
        const record = byName.get(name);
        byName.delete(name);
        const version = record && (versionOf(record) ?? NaN);
        const isSame = record === undefined || id === '' || numberText(record.id) === id;
        if (!states.includes(version) || !isSame) {
          lost.push(`${name}: ${JSON.stringify(record ?? null).slice(0, 300)}, not ${states.join(' or ')}`);
        }
      }
      doubled.push(...[...byName.keys()].map((name) => `${name} was not sent`));
      return { ...counts, lost, doubled, wrong };
    },
  };
}
