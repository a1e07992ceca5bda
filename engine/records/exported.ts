import { Readable } from 'node:stream';
import { boundToRequest, type Database, type TextRows } from '../database/index.ts';
import { separators } from '../sql/index.ts';
import { execute } from './execute.ts';
import { type FormatName, formatOf } from './formats.ts';
import type { ExportReader, OperationPlan } from './operation.ts';

/**
 * Returns the whole result of a plan as a stream of bytes. No connection is occupied between two batches, and at most two
 * batches are in memory, however slowly the stream is read. It occupies a slot until it is consumed or destroyed.
 * @param assertAllowed called before each batch is sent; the stream fails if it rejects
 * @throws HttpError like {@link execute}, for the first batch; for later ones the stream fails with this error
 */
export function exported<P extends OperationPlan>(
  database: Database,
  operation: ExportReader<P>,
  plan: P,
  format: FormatName,
  assertAllowed: () => Promise<void> = async () => {},
): Promise<Readable> {
  return new Promise((resolve, reject) => {
    const turn = database.admission.run('stream', plan.organization, async () => {
      const text = batches(database, operation, plan, format, assertAllowed);
      const first = await text.next();
      const stream = Readable.from(boundToRequest(continued(first, text)), { objectMode: false });
      const closed = new Promise<void>((done) => stream.once('close', done));
      resolve(stream);
      await closed;
    });
    turn.catch(reject);
  });
}

/** Yields the text of each batch. The next batch is read while the previous one is written. */
async function* batches<P extends OperationPlan>(
  database: Database,
  { begin, head, statement, next }: ExportReader<P>,
  first: P,
  format: FormatName,
  assertAllowed: () => Promise<void>,
): AsyncGenerator<Buffer, undefined> {
  const read = (plan: P): Promise<TextRows> => {
    const rows = execute(database, { statement: () => statement(plan, format) }, plan);
    // A rejection must be handled even if the stream is destroyed before the rows are awaited.
    rows.catch(() => {});
    return rows;
  };
  const after = Buffer.from(separators[formatOf(format).layout]);
  for (const each of begin(first)) await execute(database, { statement: () => each }, first);
  let rows = await read(first);
  let plan = next(first, rows);
  yield Buffer.from(head(first, format));
  while (plan !== undefined) {
    // Checked here because a slow reader can delay this batch for any time after it was read.
    await assertAllowed();
    const following = read(plan);
    const [text] = rows[0] ?? [];
    if (Buffer.isBuffer(text)) yield text;
    yield after;
    rows = await following;
    plan = next(plan, rows);
  }
  return undefined;
}

async function* continued(
  { done, value }: IteratorResult<Buffer, undefined>,
  rest: AsyncGenerator<Buffer, undefined>,
): AsyncGenerator<Buffer> {
  if (!done && value.length > 0) yield value;
  yield* rest;
}
