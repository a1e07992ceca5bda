import { Readable } from 'node:stream';
import { boundToRequest, type Database, type TextRows } from '../database/index.ts';
import { separators } from '../sql/index.ts';
import { execute } from './execute.ts';
import { type FormatName, formatOf } from './formats.ts';
import type { ExportReader, OperationPlan } from './operation.ts';

/**
 * Returns the complete result of a plan as a stream of bytes. However slowly the client reads, at most two
 * batches are in memory, and no connection is occupied between batches. The stream occupies a slot until it
 * is consumed or destroyed.
 * @param assertAllowed called before each batch is sent; the stream fails if it rejects
 * @throws HttpError like {@link execute}, for the first batch; later errors make the stream fail
 */
export function exportStream<P extends OperationPlan>(
  database: Database,
  operation: ExportReader<P>,
  plan: P,
  format: FormatName,
  assertAllowed: () => Promise<void> = async () => {},
): Promise<Readable> {
  return new Promise((resolve, reject) => {
    const run = database.admission.run('stream', plan.organization, async () => {
      const chunks = batches(database, operation, plan, format, assertAllowed);
      const first = await chunks.next();
      const stream = Readable.from(boundToRequest(prepend(first, chunks)), { objectMode: false });
      const closed = new Promise<void>((done) => stream.once('close', done));
      resolve(stream);
      await closed;
    });
    run.catch(reject);
  });
}

/** Yields the text of each batch. The next batch is read while the previous one is sent. */
async function* batches<P extends OperationPlan>(
  database: Database,
  { begin, head, statement, batch }: ExportReader<P>,
  first: P,
  format: FormatName,
  assertAllowed: () => Promise<void>,
): AsyncGenerator<Buffer, undefined> {
  const read = (plan: P): Promise<TextRows> => {
    const rows = execute(database, { statement: () => statement(plan, format) }, plan);
    // Prevents an unhandled rejection if the stream is destroyed before the rows are awaited.
    rows.catch(() => {});
    return rows;
  };
  const separator = Buffer.from(separators[formatOf(format).layout]);
  for (const effect of begin(first)) await execute(database, { statement: () => effect }, first);
  let current = batch(first, await read(first));
  yield Buffer.from(head(first, format));
  while (current !== undefined) {
    // Checked just before sending, because a slow client can delay a batch indefinitely after it was read.
    await assertAllowed();
    const { bytes, next } = current;
    const nextRows = read(next);
    yield typeof bytes === 'string' ? Buffer.from(bytes) : bytes;
    yield separator;
    current = batch(next, await nextRows);
  }
  return undefined;
}

async function* prepend(
  { done, value }: IteratorResult<Buffer, undefined>,
  rest: AsyncGenerator<Buffer, undefined>,
): AsyncGenerator<Buffer> {
  if (!done && value.length > 0) yield value;
  yield* rest;
}
