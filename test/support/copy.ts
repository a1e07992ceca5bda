// Test support: a copy of an organization's records, maintained using only the change feed.
import assert from 'node:assert/strict';
import type { Answer } from './instance.ts';

type Values = Readonly<Record<string, unknown>>;

interface Change {
  readonly position: string;
  readonly resource: string;
  readonly id: number;
  readonly version: number;
  readonly after: Values | null;
}

/** Follows the change feed from its first change. */
export class Copy {
  readonly #get: (path: string) => Promise<Answer>;
  readonly #known = new Map<string, Change>();
  readonly #seen = new Set<string>();
  #last: readonly [transaction: bigint, id: bigint] = [0n, 0n];
  #next = '';

  /** @param get sends a GET request to any node */
  constructor(get: (path: string) => Promise<Answer>) {
    this.#get = get;
  }

  /** Reads the feed until writing has finished and there are no more changes. */
  async follow(isDone: () => boolean): Promise<void> {
    for (;;) {
      const wasDone = isDone();
      const answer = await this.#get(`/events?wait=1&after=${this.#next}`);
      // The service is overloaded or a node is temporarily unavailable.
      if (answer.status >= 500) continue;
      assert.equal(answer.status, 200, answer.text);
      const changes = answer.json.data as readonly Change[];
      for (const change of changes) this.#take(change);
      this.#next = String(answer.json.next);
      if (wasDone && changes.length === 0) return;
    }
  }

  #take(change: Change): void {
    const [transaction = 0n, id = 0n] = change.position.split('-').map(BigInt);
    const [lastTransaction, lastId] = this.#last;
    assert.ok(
      transaction > lastTransaction || (transaction === lastTransaction && id > lastId),
      `${change.position} comes after ${this.#last.join('-')}`,
    );
    this.#last = [transaction, id];
    const record = `${change.resource} ${change.id}`;
    const once = `${record} v${change.version}`;
    assert.ok(!this.#seen.has(once), `${once} was received twice`);
    this.#seen.add(once);
    if (change.version > (this.#known.get(record)?.version ?? 0)) this.#known.set(record, change);
  }

  /** Returns a resource's records by ID. */
  recordsOf(resource: string): Readonly<Record<string, Values>> {
    return Object.fromEntries(
      [...this.#known.values()].flatMap(({ resource: name, id, after }) =>
        name === resource && after !== null ? [[id, after] as const] : [],
      ),
    );
  }

  /** Returns the records in the database, without joined fields. */
  async stored(resource: string): Promise<Readonly<Record<string, Values>>> {
    const found: [string, Values][] = [];
    for (let path: string | undefined = `/api/v1/${resource}?sort=id&dir=asc`; path !== undefined; ) {
      const answer = await this.#get(path);
      if (answer.status >= 500) continue;
      assert.equal(answer.status, 200, answer.text);
      for (const record of answer.json.data as Values[]) {
        const own = Object.entries(record).filter(
          ([name]) => !['account_name', 'contact_name'].includes(name),
        );
        found.push([String(record.id), Object.fromEntries(own)]);
      }
      path = /<([^>]*)>; rel="next"/.exec(answer.headers.get('link') ?? '')?.[1];
    }
    return Object.fromEntries(found);
  }
}
