import type { PGlite } from '@electric-sql/pglite';
import { ByteOutput, type RecordWriter } from '../sql/index.ts';
import type { Primary, Runnable, TextRows } from './database.ts';
import { errorOf } from './error-response.ts';
import { codes, columns, firstColumnOffset, frames } from './frames.ts';
import { NamedMessages } from './named-messages.ts';
import { RecordsReader } from './records-reader.ts';
import { runTransaction } from './transaction.ts';

/**
 * Returns functions that run statements on PGlite, each prepared once under its name. `client.query` would
 * parse and describe every statement each time. Statements run one at a time, and never inside another
 * transaction.
 */
export function runPrepared(client: PGlite): Pick<Primary, 'run' | 'transaction'> {
  const messages = new NamedMessages();

  async function run({ name, text, values, records }: Runnable): Promise<TextRows> {
    messages.run({ name, text: records?.asJson ?? text, values });
    const result = parseResponse(Buffer.from(await client.execProtocolRaw(messages.take())), records);
    if (!(result instanceof Error)) return result;
    messages.forget(name);
    throw result;
  }
  const runExclusively = (statement: Runnable) => client._runExclusiveQuery(() => run(statement));
  return {
    run: (statement) => client._runExclusiveTransaction(() => runExclusively(statement)),
    transaction: (work) => client._runExclusiveTransaction(() => runTransaction(runExclusively, work)),
  };
}

/**
 * Returns a response's rows. If the database built the records' JSON, the first column contains it, or null
 * if there are no records.
 */
function parseResponse(bytes: Buffer, records: RecordWriter | undefined): TextRows | Error {
  const areRecords = records !== undefined;
  const reader =
    areRecords && records.asJson === undefined ? new RecordsReader(records, new ByteOutput()) : undefined;
  const rows: (string | Buffer | null)[][] = [];
  let error: Error | undefined;
  const parse = frames((code, _, start, end) => {
    if (code === codes.error) error = errorOf(bytes, start, end);
    if (code !== codes.dataRow) return;
    const first = start + firstColumnOffset;
    const length = bytes.readInt32BE(first);
    if (reader !== undefined) reader.add(bytes, start, end);
    else if (!areRecords) rows.push(columns(bytes, first, end));
    else if (length !== -1) {
      const rest = first + 4 + length;
      rows.push([bytes.subarray(first + 4, rest), ...columns(bytes, rest, end)]);
    }
  });
  parse(bytes);
  return error ?? reader?.take() ?? rows;
}
