import { LRUCache } from 'lru-cache';
import type pg from 'pg';
import { batchValues } from '../sql/index.ts';
import type { FramedConnection } from './connection.ts';
import type { Runnable, TextRows } from './database.ts';
import { errorOf } from './error-response.ts';
import { timeoutStates } from './failures.ts';
import { codes, columns, firstColumn } from './frames.ts';
import { NamedMessages } from './named-messages.ts';
import { cancelStatement, disconnect } from './pg-internals.ts';
import { RecordsReader } from './records-reader.ts';

/** A statement with a waiting caller. */
interface Waiting {
  readonly statement: Runnable;
  readonly organization: string;
  readonly done: (outcome: PipelineResult) => void;
}

/** One sent statement: for one caller, or for many that differ only in their values. */
interface Sent {
  readonly name: string;
  readonly parts: readonly Waiting[];
  /** For merged lists, the output of the current part. */
  reader: RecordsReader | undefined;
  /** Rows that are not records; for merged statements, the row of each. */
  readonly rows: TextRows[number][];
  /** For merged lists, the index of the current part. */
  part: number | undefined;
  /** Bytes of its rows; for merged lists, of the current part. */
  size: number;
  /** SQLSTATE of its error. */
  failed: string | undefined;
}

/**
 * Rows of a statement; `late` if it exceeded a time limit, `refused` if it failed, both without writing anything; `lost` if
 * the connection ended before the result, so that the outcome is unknown.
 */
export type PipelineResult = TextRows | 'late' | 'refused' | 'lost';

/** Options of a {@link Pipeline}. */
export interface PipelineOptions {
  /** Time limit of a statement, after which the connection is dropped, in milliseconds. */
  readonly limitMs: number;
  /**
   * Called with an organization when its statement is slow or has large rows, because others wait behind it.
   */
  readonly onBlocked: (organization: string) => void;
}

/** Interval at which the server's progress is checked, in milliseconds. */
const checkIntervalMs = 10;
/**
 * Number of checks after which the statement in front counts as slow (20 to 30 ms). A count rather than a time, because a
 * busy process neither reads nor checks.
 */
const slowChecks = 3;
/** Number of checks after which statements prefer a less busy connection. */
const longChecks = 2;
/** Time for which lists run alone after they were slow or failed together, in milliseconds. */
const apartMs = 1000;
/** Size of rows that delays other statements, in bytes. */
const large = 256 * 1024;

/**
 * A connection on which statements are sent without waiting for previous results. Statements sent in one tick of the event
 * loop leave in one write. Each statement is its own transaction, so a failure does not affect others.
 */
export class Pipeline {
  readonly #client: pg.Client;
  readonly #connection: FramedConnection;
  readonly #limitMs: number;
  readonly #onBlocked: PipelineOptions['onBlocked'];
  readonly #messages = new NamedMessages();
  /** Statements that leave at the end of this tick. */
  #waiting: Waiting[] = [];
  /** Sent statements; those before `#first` have their results. */
  #sent: Sent[] = [];
  #first = 0;
  #flushing = false;
  #isOpen = true;
  #watch: NodeJS.Timeout | undefined;
  /** Whether the server has sent anything since the last check, and the number of checks without data. */
  #responded = false;
  #silentChecks = 0;
  /** The statement in front at the last check, its part, and the number of checks that found them there. */
  #inFront: Sent | undefined;
  #partInFront: number | undefined;
  #checksInFront = 0;
  /** Names of merged lists that were slow or failed. Each runs alone for a while, which identifies the cause. */
  readonly #apart = new LRUCache<string, true>({ max: 1000, ttl: apartMs });

  /** @param client a connected client with a {@link FramedConnection}, used exclusively */
  constructor(client: pg.Client, { limitMs, onBlocked }: PipelineOptions) {
    this.#client = client;
    this.#connection = client.connection as FramedConnection;
    this.#limitMs = limitMs;
    this.#onBlocked = onBlocked;
    this.#connection.take = (code, bytes, start, end) => this.#take(code, bytes, start, end);
    client.once('end', () => this.#lose());
  }

  get isOpen(): boolean {
    return this.#isOpen;
  }

  /** Number of statements without a result. */
  get pending(): number {
    return this.#unanswered + this.#waiting.length;
  }

  /**
   * Whether a statement sent now might wait: one is running and another follows, one has been running for a while, or a full
   * batch leaves in this tick.
   */
  get isBehind(): boolean {
    return this.#unanswered >= 2 || this.#waiting.length >= most || this.#lastsFor(longChecks);
  }

  /** Number of sent statements without a result. */
  get #unanswered(): number {
    return this.#sent.length - this.#first;
  }

  /** Whether the statement in front is slow, so that all others wait. */
  get isBlocked(): boolean {
    return this.#lastsFor(slowChecks);
  }

  /** Whether the statement in front has been there for a number of checks. */
  #lastsFor(checks: number): boolean {
    return this.#checksInFront >= checks && this.#inFront === this.#sent[this.#first];
  }

  /** Sends a named statement. Never rejects. */
  run(statement: Runnable, organization: string): Promise<PipelineResult> {
    return new Promise((done) => {
      this.#waiting.push({ statement, organization, done });
      this.#watch ??= setInterval(() => this.#check(), checkIntervalMs).unref();
      if (this.#flushing) return;
      this.#flushing = true;
      setImmediate(() => this.#flush());
    });
  }

  /** Drops the connection. Its pending statements are lost. */
  close(): void {
    if (!this.#isOpen) return;
    if (this.pending > 0) cancelStatement(this.#client, this.#limitMs);
    disconnect(this.#client);
    this.#lose();
  }

  #flush(): void {
    this.#flushing = false;
    const waiting = this.#waiting;
    this.#waiting = [];
    if (!this.#isOpen) {
      for (const { done } of waiting) done('lost');
      return;
    }
    for (const parts of grouped(waiting, this.#apart)) this.#send(parts);
    const { stream } = this.#connection;
    if (stream.writable) stream.write(this.#messages.take());
  }

  #send(parts: readonly Waiting[]): void {
    const [first] = parts;
    if (first === undefined) return;
    const { many, records } = first.statement;
    const isGroup = parts.length > 1 && many !== undefined;
    const sent = isGroup
      ? { ...many, values: batchValues(parts.map(({ statement }) => statement)) }
      : first.statement;
    this.#messages.run(sent);
    const reader = records && !isGroup ? new RecordsReader(records, this.#connection.output) : undefined;
    this.#sent.push({
      name: sent.name,
      parts,
      reader,
      rows: [],
      part: undefined,
      size: 0,
      failed: undefined,
    });
  }

  #take(code: number, bytes: Buffer, start: number, end: number): void {
    this.#responded = true;
    const first = this.#sent[this.#first];
    if (first === undefined) return;
    if (code === codes.dataRow) this.#addRow(first, bytes, start, end);
    else if (code === codes.error) first.failed = errorOf(bytes, start, end).code;
    else if (code === codes.readyForQuery) this.#finish(first);
  }

  #addRow(first: Sent, bytes: Buffer, start: number, end: number): void {
    try {
      if (first.parts.length > 1) {
        this.#addPart(first, bytes, start, end);
        return;
      }
      if (this.#grows(first, end - start)) this.#blame(first);
      if (first.reader !== undefined) first.reader.add(bytes, start, end);
      else first.rows.push(columns(bytes, start + firstColumn, end));
    } catch {
      // The pool runs it again and reports the error.
      first.failed = '';
    }
  }

  /** @returns whether its rows have just become large */
  #grows(sent: Sent, size: number): boolean {
    const wasSmall = sent.size <= large;
    sent.size += size;
    return wasSmall && sent.size > large;
  }

  /** Handles a row of merged statements, which starts with the index of its input. */
  #addPart(sent: Sent, bytes: Buffer, start: number, end: number): void {
    const { parts, rows } = sent;
    const number = start + firstColumn + 4;
    const at = number + bytes.readInt32BE(start + firstColumn);
    const index = Number(bytes.toString('latin1', number, at)) - 1;
    const part = parts[index];
    if (part === undefined) throw new Error(`no part ${index}`);
    const { records, many } = part.statement;
    if (many?.lists && records !== undefined) {
      if (index !== sent.part) this.#endPart(sent, index);
      if (this.#grows(sent, end - at)) this.#onBlocked(part.organization);
      sent.reader ??= new RecordsReader(records, this.#connection.output);
      sent.reader.add(bytes, at - firstColumn, end);
      return;
    }
    if (end - at > large) this.#onBlocked(part.organization);
    const { output } = this.#connection;
    const further = columns(bytes, records === undefined ? at : records.write(bytes, at, output), end);
    rows[index] = records === undefined ? further : [output.take(), ...further];
  }

  /** Takes the records of a list and continues with the next one. @throws Error if that one has been taken already */
  #endPart(sent: Sent, next: number | undefined): void {
    const { part, reader, rows } = sent;
    const [row] = reader?.take() ?? [];
    if (part !== undefined && row !== undefined) rows[part] = row;
    if (next !== undefined && rows[next] !== undefined) throw new Error(`rows of part ${next} in two places`);
    Object.assign(sent, { part: next, reader: undefined, size: 0 });
  }

  #finish(sent: Sent): void {
    const { name, parts, reader, rows, failed } = sent;
    this.#sent[this.#first++] = undefined as unknown as Sent;
    if (this.#first === this.#sent.length || this.#first === compactAt) {
      this.#sent = this.#sent.slice(this.#first);
      this.#first = 0;
    }
    if (failed === undefined) {
      if (parts.length === 1) parts[0]?.done(reader?.take() ?? rows);
      else {
        this.#endPart(sent, undefined);
        for (const [index, { done }] of parts.entries()) done(rows[index] === undefined ? [] : [rows[index]]);
      }
      return;
    }
    this.#connection.output.clear();
    this.#messages.forget(name);
    const isLate = timeoutStates.includes(failed);
    const together = areLists(sent);
    if (together) this.#apart.set(name, true);
    // Merged lists can be late although each alone would not be.
    for (const { done } of parts) done(isLate && !together ? 'late' : 'refused');
    // The statements behind it might wait for the same reason, one after the other.
    if (isLate && this.pending > 0) this.close();
  }

  /** Returns the organization of a statement, or undefined if it serves several: it is then unknown whose part is slow. */
  #blame({ parts: [part, ...others] }: Sent): void {
    if (part !== undefined && others.every(({ organization }) => organization === part.organization))
      this.#onBlocked(part.organization);
  }

  #check(): void {
    if (this.pending === 0) {
      clearInterval(this.#watch);
      this.#watch = undefined;
    }
    const first = this.#sent[this.#first];
    const isSame = first !== undefined && first === this.#inFront && first.part === this.#partInFront;
    this.#checksInFront = isSame ? this.#checksInFront + 1 : 1;
    this.#inFront = first;
    this.#partInFront = first?.part;
    if (first !== undefined && this.#checksInFront === slowChecks) {
      if (areLists(first)) this.#apart.set(first.name, true);
      this.#blame(first);
    }
    this.#silentChecks = this.#responded || this.pending === 0 ? 0 : this.#silentChecks + 1;
    this.#responded = false;
    if (this.#silentChecks * checkIntervalMs < this.#limitMs) return;
    // First read data that arrived while this process was busy.
    setImmediate(() => {
      if (!this.#responded) this.close();
    });
  }

  #lose(): void {
    this.#isOpen = false;
    clearInterval(this.#watch);
    const lost = [...this.#sent.slice(this.#first).flatMap(({ parts }) => parts), ...this.#waiting];
    this.#sent = [];
    this.#waiting = [];
    this.#first = 0;
    for (const { done } of lost) done('lost');
  }
}

/** Whether several lists were sent as one statement. */
const areLists = ({ parts }: Sent): boolean => parts.length > 1 && parts[0]?.statement.many?.lists === true;

/** Merges statements that differ only in their values, in order of arrival. */
function grouped(waiting: readonly Waiting[], apart: LRUCache<string, true>): Iterable<readonly Waiting[]> {
  if (waiting.length === 1) return [waiting];
  const groups: Waiting[][] = [];
  const open = new Map<string, Waiting[]>();
  for (const each of waiting) {
    const of = each.statement.many;
    const many = of !== undefined && apart.size > 0 && apart.has(of.name) ? undefined : of;
    const group = many && open.get(many.name);
    if (group !== undefined && group.length < (many?.lists ? mostLists : most)) {
      group.push(each);
      continue;
    }
    const made = [each];
    groups.push(made);
    if (many !== undefined) open.set(many.name, made);
  }
  return groups;
}

/** Maximum number of merged statements; fewer for lists, because others wait behind them. */
const [most, mostLists] = [64, 16];

/** Number of results after which the queue is compacted if it never becomes empty. */
const compactAt = 1024;
