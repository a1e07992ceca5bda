import { EventEmitter } from 'node:events';
import type { Socket } from 'node:net';
import type { ConnectionOptions } from 'node:tls';
import pg from 'pg';
import { ByteOutput, type RecordWriter } from '../sql/index.ts';
import type { TextRows } from './database.ts';
import { codes, columns, firstColumnOffset, frames, headLength, type MessageHandler } from './frames.ts';
import { RecordsReader } from './records-reader.ts';

/** pg's connection, including internals that are missing from its types. */
export type PgConnection = pg.Connection & {
  readonly stream: Socket;
  ssl: ConnectionOptions | false;
  attachListeners(stream: EventEmitter): void;
};

const PgConnection = pg.Connection as unknown as new (config: pg.ConnectionConfig) => PgConnection;

/** A connection that stores rows as bytes until they are needed as text. */
export class FramedConnection extends PgConnection {
  /** Handles every message in place of pg. */
  onMessage: MessageHandler | undefined;
  /** Buffer for the current statement's rows. */
  readonly output = new ByteOutput();

  override attachListeners(stream: EventEmitter): void {
    const emitter = new EventEmitter();
    super.attachListeners(emitter);
    const onData = frames((code, bytes, start, end) => {
      if (this.onMessage !== undefined) this.onMessage(code, bytes, start, end);
      else if (code === codes.dataRow) this.emit('dataRow', new DataRow(bytes, start, end));
      else emitter.emit('data', bytes.subarray(start - headLength, end));
    });
    stream.on('data', onData);
  }
}

/** A row in the form that pg's queries expect. */
class DataRow {
  readonly name = 'dataRow';
  readonly bytes: Buffer;
  readonly start: number;
  readonly end: number;

  constructor(bytes: Buffer, start: number, end: number) {
    this.bytes = bytes;
    this.start = start;
    this.end = end;
  }

  get fields(): (string | null)[] {
    return columns(this.bytes, this.start + firstColumnOffset, this.end);
  }
}

/** pg's query, including internals that are missing from its types. */
interface PgQuery extends pg.Submittable {
  _canceledDueToError: unknown;
  handleDataRow(row: DataRow): void;
}

const PgQuery = pg.Query as unknown as new (
  config: pg.QueryConfig,
  done: (error: Error | undefined) => void,
) => PgQuery;

/** A statement as pg receives it. */
export interface StatementQuery extends pg.QueryConfig {
  /** Whether the statement only reads. Undefined if only its text shows this. */
  readonly onlyReads?: boolean | undefined;
}

/** A query on a {@link FramedConnection} whose rows are records. */
class RecordsQuery extends PgQuery {
  readonly onlyReads: StatementQuery['onlyReads'];
  readonly #reader: RecordsReader;

  constructor(config: StatementQuery, reader: RecordsReader, done: (error: Error | undefined) => void) {
    super(config, done);
    this.onlyReads = config.onlyReads;
    this.#reader = reader;
  }

  override handleDataRow({ bytes, start, end }: DataRow): void {
    try {
      this.#reader.add(bytes, start, end);
    } catch (cause) {
      this._canceledDueToError = cause;
    }
  }
}

/** Runs a statement whose rows are records. @param client must use a {@link FramedConnection} */
export function queryRecords(
  client: pg.Client,
  config: StatementQuery,
  records: RecordWriter,
): Promise<TextRows> {
  const { output } = client.connection as FramedConnection;
  output.clear();
  const reader = new RecordsReader(records, output);
  return new Promise((resolve, reject) => {
    const done = (error: Error | undefined) => (error ? reject(error) : resolve(reader.take()));
    client.query(new RecordsQuery(config, reader, done));
  });
}
