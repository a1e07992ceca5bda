import type pg from 'pg';
import type { FramedConnection } from './connection.ts';
import type { Rows, Runnable } from './database.ts';
import { errorOf } from './error-response.ts';
import { timedOut } from './failures.ts';
import { codes, columns, firstColumn } from './frames.ts';
import { NamedMessages } from './named-messages.ts';
import { RecordsReader } from './records-reader.ts';
import { cancel, cut } from './wire.ts';

/** A statement that was sent. */
interface Sent {
  readonly name: string;
  readonly organization: string;
  readonly reader: RecordsReader | undefined;
  /** Rows that are no records. */
  readonly rows: (string | null)[][];
  /** Bytes of its rows. */
  size: number;
  /** SQLSTATE of its error. */
  failed: string | undefined;
  readonly done: (outcome: Outcome) => void;
}

/**
 * The rows of a statement; `late` if the server ended it because of a time limit, `refused` if it failed, both without
 * writing anything; `lost` if the connection ended before the result, so that nobody knows.
 */
export type Outcome = Rows | 'late' | 'refused' | 'lost';

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
  /** Statements without a result; those before `#first` have theirs. */
  #sent: Sent[] = [];
  #first = 0;
  #flushing = false;
  #isOpen = true;
  #watch: NodeJS.Timeout | undefined;
  /** Whether the server has sent anything since the last check, and for how many checks it has not. */
  #responded = false;
  #silentChecks = 0;
  /** The statement that was in front at the last check, and how many checks found it there. */
  #inFront: Sent | undefined;
  #checksInFront = 0;

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
    return this.#sent.length - this.#first;
  }

  /** Whether the statement in front is slow: all others wait for it. */
  get isBlocked(): boolean {
    return this.#checksInFront >= slowChecks && this.#inFront === this.#sent[this.#first];
  }

  /** Sends a named statement. Never rejects. */
  run(statement: Runnable, organization: string): Promise<Outcome> {
    const { name, records } = statement;
    return new Promise((done) => {
      this.#messages.run(statement);
      const reader = records && new RecordsReader(records, this.#connection.output);
      this.#sent.push({ name, organization, reader, rows: [], size: 0, failed: undefined, done });
      this.#watch ??= setInterval(() => this.#check(), checkIntervalMs).unref();
      if (this.#flushing) return;
      this.#flushing = true;
      setImmediate(() => this.#flush());
    });
  }

  /** Gives the connection up. What it still has to do is lost. */
  close(): void {
    if (!this.#isOpen) return;
    if (this.pending > 0) cancel(this.#client, this.#limitMs);
    cut(this.#client);
    this.#lose();
  }

  #flush(): void {
    this.#flushing = false;
    const { stream } = this.#connection;
    if (this.#isOpen && stream.writable) stream.write(this.#messages.take());
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
    const wasSmall = first.size <= large;
    first.size += end - start;
    if (wasSmall && first.size > large) this.#onBlocked(first.organization);
    try {
      if (first.reader === undefined) first.rows.push(columns(bytes, start + firstColumn, end));
      else first.reader.add(bytes, start, end);
    } catch {
      // The pool runs it again, and reports what is wrong with it.
      first.failed = '';
    }
  }

  #finish({ name, reader, rows, failed, done }: Sent): void {
    this.#sent[this.#first++] = undefined as unknown as Sent;
    if (this.#first === this.#sent.length || this.#first === compactAt) {
      this.#sent = this.#sent.slice(this.#first);
      this.#first = 0;
    }
    if (failed === undefined) {
      done(reader?.take() ?? rows);
      return;
    }
    this.#connection.output.clear();
    this.#messages.forget(name);
    const isLate = timedOut.includes(failed);
    done(isLate ? 'late' : 'refused');
    // Those behind it may have to wait for the same reason, one after the other.
    if (isLate && this.pending > 0) this.close();
  }

  #check(): void {
    if (this.pending === 0) {
      clearInterval(this.#watch);
      this.#watch = undefined;
    }
    const first = this.#sent[this.#first];
    this.#checksInFront = first !== undefined && first === this.#inFront ? this.#checksInFront + 1 : 1;
    this.#inFront = first;
    if (first !== undefined && this.#checksInFront === slowChecks) this.#onBlocked(first.organization);
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
    const lost = this.#sent.slice(this.#first);
    this.#sent = [];
    this.#first = 0;
    for (const { done } of lost) done('lost');
  }
}

/** Results after which the list of statements is made shorter, where there is always one without a result. */
const compactAt = 1024;
