import { LRUCache } from 'lru-cache';
import type pg from 'pg';
import { valuesOfMany } from '../sql/index.ts';
import type { FramedConnection } from './connection.ts';
import type { Runnable, TextRows } from './database.ts';
import { errorOf } from './error-response.ts';
import { timeoutStates } from './failures.ts';
import { codes, columns, firstColumn } from './frames.ts';
import { NamedMessages } from './named-messages.ts';
import { cancelStatement, disconnect } from './pg-internals.ts';
import { RecordsReader } from './records-reader.ts';

/** A statement that somebody waits for. */
interface Waiting {
  readonly statement: Runnable;
  readonly organization: string;
  readonly done: (outcome: PipelineResult) => void;
}

/** What was sent as one statement: one that somebody waits for, or many that are the same but for their values. */
interface Sent {
  readonly name: string;
  readonly parts: readonly Waiting[];
  /** Of lists, that of the part whose rows arrive. */
  reader: RecordsReader | undefined;
  /** Rows that are no records; of many statements, the row of each. */
  readonly rows: TextRows[number][];
  /** Of lists, the part whose rows arrive. */
  part: number | undefined;
  /** Bytes of its rows; of lists, of that part's. */
  size: number;
  /** SQLSTATE of its error. */
  failed: string | undefined;
}

/**
 * The rows of a statement; `late` if the server ended it because of a time limit, `refused` if it failed, both without
 * writing anything; `lost` if the connection ended before the result, so that nobody knows.
 */
export type PipelineResult = TextRows | 'late' | 'refused' | 'lost';

/** What a {@link Pipeline} is made with. */
export interface PipelineOptions {
  /** How long the server may take for one statement before the connection is given up, in milliseconds. */
  readonly limitMs: number;
  /**
   * Called with an organization as soon as a statement of it takes long or its rows are large: others wait behind it.
   */
  readonly onBlocked: (organization: string) => void;
}

/** How often to check whether the server still responds, in milliseconds. */
const checkIntervalMs = 10;
/**
 * Checks that find the same statement in front before it counts as slow: after 20 to 30 ms. A count, not a time: while
 * this process is busy it neither reads nor checks.
 */
const slowChecks = 3;
/** Checks after which others take another connection, if there is one that is less behind. */
const longChecks = 2;
/** How long lists that were slow or failed together run alone, in milliseconds. */
const apartMs = 1000;
/** Bytes of rows that others would have to wait for. */
const large = 256 * 1024;

/**
 * A connection on which statements are sent without waiting for the results of those before. What is sent in one turn
 * of the event loop leaves in one write. Each statement is a transaction of its own: one that fails affects no other.
 */
export class Pipeline {
  readonly #client: pg.Client;
  readonly #connection: FramedConnection;
  readonly #limitMs: number;
  readonly #onBlocked: PipelineOptions['onBlocked'];
  readonly #messages = new NamedMessages();
  /** Statements that leave at the end of this turn of the event loop. */
  #waiting: Waiting[] = [];
  /** What has no result yet; those before `#first` have theirs. */
  #sent: Sent[] = [];
  #first = 0;
  #flushing = false;
  #isOpen = true;
  #watch: NodeJS.Timeout | undefined;
  /** Whether the server has sent anything since the last check, and for how many checks it has not. */
  #responded = false;
  #silentChecks = 0;
  /** The statement that was in front at the last check, its part, and how many checks found them there. */
  #inFront: Sent | undefined;
  #partInFront: number | undefined;
  #checksInFront = 0;
  /** Names of lists for many that were slow or failed: each runs alone for a while, which shows whose fault it is. */
  readonly #apart = new LRUCache<string, true>({ max: 1000, ttl: apartMs });

  /** @param client connected, with a {@link FramedConnection}; nobody else uses it */
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

  /** Statements without a result. */
  get pending(): number {
    return this.#unanswered + this.#waiting.length;
  }

  /**
   * Whether what is sent now may have to wait: one statement runs and another one is there to run at once after it, the
   * one that runs has done so for a while, or a full group leaves in this turn.
   */
  get isBehind(): boolean {
    return this.#unanswered >= 2 || this.#waiting.length >= most || this.#lastsFor(longChecks);
  }

  /** What was sent and has no result yet. */
  get #unanswered(): number {
    return this.#sent.length - this.#first;
  }

  /** Whether the statement in front is slow: all others wait for it. */
  get isBlocked(): boolean {
    return this.#lastsFor(slowChecks);
  }

  /** Whether the statement in front was there at so many checks. */
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

  /** Gives the connection up. What it still has to do is lost. */
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
      ? { ...many, values: valuesOfMany(parts.map(({ statement }) => statement)) }
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
      // The pool runs it again, and reports what is wrong with it.
      first.failed = '';
    }
  }

  /** @returns whether its rows have just become large */
  #grows(sent: Sent, size: number): boolean {
    const wasSmall = sent.size <= large;
    sent.size += size;
    return wasSmall && sent.size > large;
  }

  /** A row of one of many statements: its number comes first. */
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

  /** Takes the records of a list, and goes on to the next one. @throws Error if that one has been taken */
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
    // Together lists may be late that are not so alone.
    for (const { done } of parts) done(isLate && !together ? 'late' : 'refused');
    // Those behind it may have to wait for the same reason, one after the other.
    if (isLate && this.pending > 0) this.close();
  }

  /** Of several organizations in one statement nobody knows whose part is slow. */
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
    // Data that arrived while this process was busy is read first.
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

/** Whether many lists were sent as one statement. */
const areLists = ({ parts }: Sent): boolean => parts.length > 1 && parts[0]?.statement.many?.lists === true;

/** Statements that are the same but for their values, together; everything else alone. In the order in which they came. */
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

/** Statements that are sent as one; of lists fewer, for others wait behind them. */
const [most, mostLists] = [64, 16];

/** Results after which the list of statements is made shorter, where there is always one without a result. */
const compactAt = 1024;
