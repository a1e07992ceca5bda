import { LRUCache } from 'lru-cache';
import type pg from 'pg';
import { batchValues } from '../sql/index.ts';
import type { FramedConnection } from './connection.ts';
import type { Runnable, TextRows } from './database.ts';
import { errorOf } from './error-response.ts';
import { timeoutStates } from './failures.ts';
import { codes, columns, firstColumnOffset } from './frames.ts';
import { NamedMessages } from './named-messages.ts';
import { cancelStatement, disconnect } from './pg-internals.ts';
import { RecordsReader } from './records-reader.ts';

/** A statement and its caller's callback. */
interface Call {
  readonly statement: Runnable;
  readonly organization: string;
  readonly done: (outcome: PipelineResult) => void;
}

/** A sent statement, for one caller or merged from several that differ only in their values. */
interface SentStatement {
  readonly name: string;
  readonly calls: readonly Call[];
  /** For merged lists, the reader of the current call. */
  reader: RecordsReader | undefined;
  /** Rows that are not records; for merged statements, one row per call. */
  readonly rows: TextRows[number][];
  /** For merged lists, the index of the current call. */
  callIndex: number | undefined;
  /** Size of the statement's rows in bytes; for merged lists, only the rows of the current call. */
  size: number;
  /** SQLSTATE of the statement's error; empty if a row could not be read. */
  errorState: string | undefined;
}

/**
 * Rows of a statement, or the reason for their absence. `late` (a time limit was exceeded) and `refused` (the
 * statement failed) mean that nothing was written. `lost` means that the connection was lost before the
 * result arrived, so the outcome is unknown.
 */
export type PipelineResult = TextRows | 'late' | 'refused' | 'lost';

/** Options for a {@link Pipeline}. */
export interface PipelineOptions {
  /** Time limit for a statement, in milliseconds, after which the connection is dropped. */
  readonly limitMs: number;
  /**
   * Called with the organization of a statement that is slow or has large rows, because other statements wait
   * behind it.
   */
  readonly onBlocked: (organization: string) => void;
}

/** Interval at which the server's progress is checked, in milliseconds. */
const checkIntervalMs = 10;
/**
 * Number of checks after which the first statement in the queue is considered slow (20 to 30 ms). This is a
 * count rather than a duration, because a busy process neither reads nor checks.
 */
const slowChecks = 3;
/** Number of checks after which statements prefer a less busy connection. */
const longChecks = 2;
/** How long lists are sent separately after a merged statement was slow or failed, in milliseconds. */
const unmergedMs = 1000;
/** Minimum total size of a statement's rows, in bytes, for it to count as delaying others. */
const largeBytes = 256 * 1024;

/**
 * A connection on which statements are sent without waiting for previous results. Statements sent in the same
 * tick of the event loop are written together. Each statement is a separate transaction, so a failure does
 * not affect others.
 */
export class Pipeline {
  readonly #client: pg.Client;
  readonly #connection: FramedConnection;
  readonly #limitMs: number;
  readonly #onBlocked: PipelineOptions['onBlocked'];
  readonly #messages = new NamedMessages();
  /** Statements that are sent at the end of this tick. */
  #queue: Call[] = [];
  /** Sent statements. Statements before `#firstPending` already have their results. */
  #sent: SentStatement[] = [];
  #firstPending = 0;
  #flushing = false;
  #isOpen = true;
  #watch: NodeJS.Timeout | undefined;
  /** Whether the server has sent anything since the last check, and the number of checks without data. */
  #responded = false;
  #silentChecks = 0;
  /**
   * The first pending statement and call at the last check, and the number of consecutive checks that found
   * them.
   */
  #frontStatement: SentStatement | undefined;
  #frontCall: number | undefined;
  #frontChecks = 0;
  /**
   * Names of merged lists that were slow or failed. They run separately for a while, which identifies the
   * cause.
   */
  readonly #unmerged = new LRUCache<string, true>({ max: 1000, ttl: unmergedMs });

  /** Takes exclusive control of a client. @param client a connected client with a {@link FramedConnection} */
  constructor(client: pg.Client, { limitMs, onBlocked }: PipelineOptions) {
    this.#client = client;
    this.#connection = client.connection as FramedConnection;
    this.#limitMs = limitMs;
    this.#onBlocked = onBlocked;
    this.#connection.onMessage = (code, bytes, start, end) => this.#onMessage(code, bytes, start, end);
    client.once('end', () => this.#loseConnection());
  }

  get isOpen(): boolean {
    return this.#isOpen;
  }

  /** Number of statements without a result. */
  get pending(): number {
    return this.#unanswered + this.#queue.length;
  }

  /**
   * Whether a statement sent now might have to wait: one is running and another follows, one has been running
   * for a while, or a full batch is sent in this tick.
   */
  get isBehind(): boolean {
    return this.#unanswered >= 2 || this.#queue.length >= maxMerged || this.#isInFrontFor(longChecks);
  }

  /** Number of sent statements without a result. */
  get #unanswered(): number {
    return this.#sent.length - this.#firstPending;
  }

  /** Whether the first pending statement is slow, so that all others wait. */
  get isBlocked(): boolean {
    return this.#isInFrontFor(slowChecks);
  }

  /**
   * Returns whether at least this many consecutive checks found the same statement at the head of the queue.
   */
  #isInFrontFor(checks: number): boolean {
    return this.#frontChecks >= checks && this.#frontStatement === this.#sent[this.#firstPending];
  }

  /** Sends a named statement. Never rejects. */
  run(statement: Runnable, organization: string): Promise<PipelineResult> {
    return new Promise((done) => {
      this.#queue.push({ statement, organization, done });
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
    this.#loseConnection();
  }

  #flush(): void {
    this.#flushing = false;
    const queue = this.#queue;
    this.#queue = [];
    if (!this.#isOpen) {
      for (const { done } of queue) done('lost');
      return;
    }
    for (const calls of mergeCalls(queue, this.#unmerged)) this.#send(calls);
    const { stream } = this.#connection;
    if (stream.writable) stream.write(this.#messages.take());
  }

  #send(calls: readonly Call[]): void {
    const [first] = calls;
    if (first === undefined) return;
    const { many, records } = first.statement;
    const isMerged = calls.length > 1 && many !== undefined;
    const statement = isMerged
      ? { ...many, values: batchValues(calls.map(({ statement }) => statement)) }
      : first.statement;
    this.#messages.run(statement);
    const reader = records && !isMerged ? new RecordsReader(records, this.#connection.output) : undefined;
    this.#sent.push({
      name: statement.name,
      calls,
      reader,
      rows: [],
      callIndex: undefined,
      size: 0,
      errorState: undefined,
    });
  }

  #onMessage(code: number, bytes: Buffer, start: number, end: number): void {
    this.#responded = true;
    const first = this.#sent[this.#firstPending];
    if (first === undefined) return;
    if (code === codes.dataRow) this.#addRow(first, bytes, start, end);
    else if (code === codes.error) first.errorState = errorOf(bytes, start, end).code;
    else if (code === codes.readyForQuery) this.#finish(first);
  }

  #addRow(first: SentStatement, bytes: Buffer, start: number, end: number): void {
    try {
      if (first.calls.length > 1) {
        this.#addMergedRow(first, bytes, start, end);
        return;
      }
      if (this.#becomesLarge(first, end - start)) this.#blame(first);
      if (first.reader !== undefined) first.reader.add(bytes, start, end);
      else first.rows.push(columns(bytes, start + firstColumnOffset, end));
    } catch {
      // The statement is rerun in the pool, which reports the error.
      first.errorState = '';
    }
  }

  /** Adds to the total size of a statement's rows. @returns whether this made the rows large */
  #becomesLarge(sent: SentStatement, size: number): boolean {
    const wasSmall = sent.size <= largeBytes;
    sent.size += size;
    return wasSmall && sent.size > largeBytes;
  }

  /** Handles a row from a merged statement. The row starts with the index of its input. */
  #addMergedRow(sent: SentStatement, bytes: Buffer, start: number, end: number): void {
    const { calls, rows } = sent;
    const indexStart = start + firstColumnOffset + 4;
    const indexEnd = indexStart + bytes.readInt32BE(start + firstColumnOffset);
    const index = Number(bytes.toString('latin1', indexStart, indexEnd)) - 1;
    const call = calls[index];
    if (call === undefined) throw new Error(`call ${index} does not exist`);
    const { records, many } = call.statement;
    if (many?.lists && records !== undefined) {
      if (index !== sent.callIndex) this.#finishCall(sent, index);
      if (this.#becomesLarge(sent, end - indexEnd)) this.#onBlocked(call.organization);
      sent.reader ??= new RecordsReader(records, this.#connection.output);
      sent.reader.add(bytes, indexEnd - firstColumnOffset, end);
      return;
    }
    if (end - indexEnd > largeBytes) this.#onBlocked(call.organization);
    const { output } = this.#connection;
    const extraColumns = columns(
      bytes,
      records === undefined ? indexEnd : records.write(bytes, indexEnd, output),
      end,
    );
    rows[index] = records === undefined ? extraColumns : [output.take(), ...extraColumns];
  }

  /**
   * Stores the current list's records and continues with the next list.
   * @throws Error if the next list is already finished
   */
  #finishCall(sent: SentStatement, next: number | undefined): void {
    const { callIndex, reader, rows } = sent;
    const [row] = reader?.take() ?? [];
    if (callIndex !== undefined && row !== undefined) rows[callIndex] = row;
    if (next !== undefined && rows[next] !== undefined)
      throw new Error(`the rows of call ${next} are not consecutive`);
    Object.assign(sent, { callIndex: next, reader: undefined, size: 0 });
  }

  #finish(sent: SentStatement): void {
    const { name, calls, reader, rows, errorState } = sent;
    this.#sent[this.#firstPending++] = undefined as unknown as SentStatement;
    if (this.#firstPending === this.#sent.length || this.#firstPending === compactAt) {
      this.#sent = this.#sent.slice(this.#firstPending);
      this.#firstPending = 0;
    }
    if (errorState === undefined) {
      if (calls.length === 1) calls[0]?.done(reader?.take() ?? rows);
      else {
        this.#finishCall(sent, undefined);
        for (const [index, { done }] of calls.entries()) done(rows[index] === undefined ? [] : [rows[index]]);
      }
      return;
    }
    this.#connection.output.clear();
    this.#messages.forget(name);
    const isLate = timeoutStates.includes(errorState);
    const areMerged = areMergedLists(sent);
    if (areMerged) this.#unmerged.set(name, true);
    // Merged lists can exceed the limit even if none of them would exceed it alone.
    for (const { done } of calls) done(isLate && !areMerged ? 'late' : 'refused');
    // The following statements might wait for the same reason, one after the other.
    if (isLate && this.pending > 0) this.close();
  }

  /**
   * Reports the statement's organization. Does nothing if the statement serves several organizations, because
   * it is unknown which one is slow.
   */
  #blame({ calls: [call, ...others] }: SentStatement): void {
    if (call !== undefined && others.every(({ organization }) => organization === call.organization))
      this.#onBlocked(call.organization);
  }

  #check(): void {
    if (this.pending === 0) {
      clearInterval(this.#watch);
      this.#watch = undefined;
    }
    const first = this.#sent[this.#firstPending];
    const isSame =
      first !== undefined && first === this.#frontStatement && first.callIndex === this.#frontCall;
    this.#frontChecks = isSame ? this.#frontChecks + 1 : 1;
    this.#frontStatement = first;
    this.#frontCall = first?.callIndex;
    if (first !== undefined && this.#frontChecks === slowChecks) {
      if (areMergedLists(first)) this.#unmerged.set(first.name, true);
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

  #loseConnection(): void {
    this.#isOpen = false;
    clearInterval(this.#watch);
    const calls = [...this.#sent.slice(this.#firstPending).flatMap(({ calls }) => calls), ...this.#queue];
    this.#sent = [];
    this.#queue = [];
    this.#firstPending = 0;
    for (const { done } of calls) done('lost');
  }
}

/** Returns whether several lists were sent as one statement. */
const areMergedLists = ({ calls }: SentStatement): boolean =>
  calls.length > 1 && calls[0]?.statement.many?.lists === true;

/** Merges statements that differ only in their values, in order of arrival. */
function mergeCalls(queue: readonly Call[], unmerged: LRUCache<string, true>): Iterable<readonly Call[]> {
  if (queue.length === 1) return [queue];
  const batches: Call[][] = [];
  const openBatches = new Map<string, Call[]>();
  for (const call of queue) {
    const mergedForm = call.statement.many;
    const many =
      mergedForm !== undefined && unmerged.size > 0 && unmerged.has(mergedForm.name) ? undefined : mergedForm;
    const batch = many && openBatches.get(many.name);
    if (batch !== undefined && batch.length < (many?.lists ? maxMergedLists : maxMerged)) {
      batch.push(call);
      continue;
    }
    const newBatch = [call];
    batches.push(newBatch);
    if (many !== undefined) openBatches.set(many.name, newBatch);
  }
  return batches;
}

/**
 * Maximum number of merged statements. The limit for lists is lower, because other statements wait behind
 * them.
 */
const [maxMerged, maxMergedLists] = [64, 16];

/** Number of results after which the queue is compacted even if it is not empty. */
const compactAt = 1024;
