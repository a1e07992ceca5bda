// Test support: watches the lowest layer at which statements reach a database and checks whether each statement holds
// an admission slot.
import { AsyncLocalStorage } from 'node:async_hooks';
import type { PGlite } from '@electric-sql/pglite';
import type { Pool, PoolClient } from 'pg';
import type { TextRows } from '../../engine/database/database.ts';
import { pgInternals } from '../../engine/database/pg-internals.ts';
import { slotState } from '../../engine/database/requests.ts';
import type { Instance } from './instance.ts';
import { partsOf } from './scheduled.ts';

/** Statements that reached the database. */
export interface Watched {
  /** Statements sent by requests without a slot. */
  readonly outside: string[];
  /** Statements not sent by a request. */
  readonly background: string[];
  /** Statements sent while holding a slot. */
  readonly inside: string[];
  /** Slots acquired for requests, each with the kind of work and the organization. */
  readonly slots: string[];
  /** All statements, each with its slot's kind of work and organization, or undefined if it does not hold a slot. */
  readonly statements: { readonly text: string; readonly slot: string | undefined }[];
  /** Number of bytes read by each statement or transaction. */
  readonly bytes: number[];
  readonly stop: () => unknown;
}

type Anything = (...given: never[]) => unknown;

/** Watches an instance's statements. */
export async function watchAdmission({ database }: Instance): Promise<Watched> {
  const { admission, primary, writeBatcher } = partsOf(database);
  const seen: Watched = {
    outside: [],
    background: [],
    inside: [],
    slots: [],
    statements: [],
    bytes: [],
    stop: () => undo.splice(0).map((each) => each()),
  };
  const undo: (() => void)[] = [];
  const lists = { held: seen.inside, needed: seen.outside, none: seen.background };
  /** The slot of the current work, also of background work, for which {@link slotState} returns `none`. */
  const heldSlot = new AsyncLocalStorage<string>();
  const note = (text: string, state = slotState()) => {
    lists[state].push(text);
    seen.statements.push({ text, slot: heldSlot.getStore() });
  };
  /** Replaces a method until watching ends. */
  const replace = (target: object, name: string, make: (original: Anything) => Anything): void => {
    const original = Reflect.get(target, name) as Anything;
    const own = Object.hasOwn(target, name);
    Reflect.set(target, name, make(original.bind(target)));
    undo.push(() => (own ? Reflect.set(target, name, original) : Reflect.deleteProperty(target, name)));
  };

  replace(admission, 'run', (run) => (...given: never[]) => {
    const [lane, organization, work] = given as readonly unknown[];
    const slot = `${lane} ${organization}`;
    // Background work in other organizations can run at the same time.
    if (slotState() !== 'none') seen.slots.push(slot);
    return Reflect.apply(run, undefined, [lane, organization, () => heldSlot.run(slot, work as Anything)]);
  });
  const counted = async (result: unknown) => {
    const rows = (await result) as TextRows | undefined;
    seen.bytes.push(sizeOf(rows));
    return rows;
  };
  for (const shared of [primary.pipelines, writeBatcher]) {
    if (shared === undefined) continue;
    replace(shared, 'run', (run) => (...given: never[]) => {
      const [statement] = given as readonly unknown[];
      note((statement as { readonly text: string }).text);
      return counted(run(...given));
    });
  }
  replace(
    primary,
    'run',
    (run) =>
      (...given: never[]) =>
        counted(run(...given)),
  );
  const native: unknown = await database.orm.em.getConnection().getNativeClient();
  if (database.kind === 'embedded') {
    watchEmbedded(native as PGlite, note, counted, replace);
    return seen;
  }
  const pool = native as Pool;
  replace(pool, 'connect', (connect) => async (...given: never[]) => {
    if (given.length > 0) return connect(...given);
    const state = slotState();
    const client = (await connect()) as PoolClient;
    const { query, release } = client;
    const { stream } = pgInternals(client).connection;
    const { bytesRead } = stream;
    const restore = () => {
      seen.bytes.push(stream.bytesRead - bytesRead);
      Object.assign(client, { query });
    };
    client.query = ((...sent: never[]) => {
      const [first] = sent as readonly unknown[];
      note(typeof first === 'string' ? first : (first as { readonly text: string }).text, state);
      return Reflect.apply(query, client, sent) as unknown;
    }) as PoolClient['query'];
    client.release = (drop) => {
      restore();
      release(drop);
    };
    return client;
  });
  return seen;
}

/** Parses PostgreSQL protocol messages and returns the text of the statement that they execute. */
function protocolReader(): (message: Uint8Array) => string | undefined {
  const texts = new Map<string, string>();
  return (message) => {
    const type = String.fromCharCode(message[0] ?? 0);
    const parts = stringsOf(message);
    if (type === 'Q') return parts[0];
    // A named statement is parsed once and bound by name afterwards.
    if (type === 'P') texts.set(parts[0] ?? '', parts[1] ?? '');
    if (type === 'B') return texts.get(parts[1] ?? '') ?? parts[1];
    return undefined;
  };
}

/** Returns a message's zero-terminated strings, which follow its type and length. */
const stringsOf = (message: Uint8Array): string[] =>
  Buffer.from(message).subarray(5).toString('latin1').split('\0');

function watchEmbedded(
  client: PGlite,
  note: (text: string) => void,
  counted: (result: unknown) => Promise<unknown>,
  replace: (target: object, name: string, make: (original: Anything) => Anything) => void,
): void {
  const statementOf = protocolReader();
  for (const name of ['query', 'transaction', 'execProtocolRaw']) {
    replace(client, name, (run) => (...given: never[]) => {
      const [first] = given as readonly unknown[];
      if (name === 'transaction') note('transaction');
      else {
        const text = typeof first === 'string' ? first : statementOf(first as Uint8Array);
        if (text !== undefined) note(text);
      }
      return counted(run(...given));
    });
  }
}

/** Returns the total length of the strings and bytes in a result. */
function sizeOf(result: unknown): number {
  if (typeof result === 'string') return result.length;
  if (ArrayBuffer.isView(result)) return result.byteLength;
  if (typeof result !== 'object' || result === null) return 0;
  return Object.values(result).reduce((sum: number, value) => sum + sizeOf(value), 0);
}
