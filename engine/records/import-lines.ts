import type { ResourceDefinition } from '../definition/index.ts';
import { fieldLimiter, HttpError } from '../errors.ts';
import type { Body } from './body.ts';
import type { LineReader, ParsedLine } from './lines.ts';
import { isBlankValue } from './uniques.ts';
import {
  type ImportWrites,
  type RejectedRecord,
  toRejectedRecord,
  type WriteMany,
  type WriteOutcome,
} from './write-many.ts';
import { createYield } from './yield.ts';

/** A line that failed. */
export interface FailedLine extends RejectedRecord {
  readonly line: number;
}

/** The result of an import. */
export interface ImportSummary {
  readonly created: number;
  readonly updated: number;
  readonly failed: number;
  /** Whether the import stopped at a failed line: only the lines before it were written. */
  readonly stopped: boolean;
  readonly dry_run: boolean;
  /** CSV columns that do not name a writable field. */
  readonly ignored: readonly string[];
  /** The first failed lines, see {@link maxReported}. */
  readonly lines: readonly FailedLine[];
  /** Whether more lines failed than `lines` contains. */
  readonly truncated: boolean;
}

/** Maximum number and total bytes of lines written by one statement. */
const [maxLines, maxBytes] = [1000, 4 * 1024 * 1024];
/** Maximum number of failed lines in a report. */
const maxReported = 1000;
/** Returns the values that must be unique within one statement, as text. */
export const keysOf = ({ uniques }: ResourceDefinition, record: Body): readonly string[] =>
  uniques.flatMap((unique) =>
    unique.some((field) => isBlankValue(record, field))
      ? []
      : [JSON.stringify(unique.map(({ name }) => [name, record[name]]))],
  );

/** The dependencies of {@link importLines}. */
interface Importing {
  readonly write: WriteMany;
  readonly keysOf: (record: Body) => readonly string[];
  readonly onProgress: (lines: number) => void;
}

/** Writes lines in order, as many per statement as possible. */
export async function importLines(
  lines: LineReader,
  { stops, isTrial }: ImportWrites,
  { write, keysOf, onProgress }: Importing,
): Promise<ImportSummary> {
  const counts = { created: 0, updated: 0, failed: 0 };
  const failures: FailedLine[] = [];
  let batch: ParsedLine[] = [];
  let keys = new Set<string>();
  let size = 0;
  let done = 0;
  let stopped = false;
  const pause = createYield();
  const limitFields = fieldLimiter();

  const flush = async (): Promise<void> => {
    const taken = batch;
    batch = [];
    keys = new Set();
    size = 0;
    const results = await (stops ? writeUntilFailure(taken, write) : writeEach(taken, write));
    for (const [index, result] of results.entries()) {
      done++;
      if (result === 'created' || result === 'updated') {
        counts[result]++;
        continue;
      }
      counts.failed++;
      stopped = stops;
      const { number = 0 } = taken[index] ?? {};
      if (failures.length < maxReported) failures.push({ line: number, ...limitFields(result) });
    }
    onProgress(done);
  };
  /** Adds a line, after a write if one is due. */
  const add = async (line: ParsedLine): Promise<void> => {
    const own = line.record instanceof HttpError ? [] : keysOf(line.record);
    // A second record with the same key updates the first one, which must have been written.
    if (own.some((key) => keys.has(key))) await flush();
    if (stopped) return;
    for (const key of own) keys.add(key);
    batch.push(line);
    size += line.size;
    if (batch.length === maxLines || size >= maxBytes) await flush();
  };
  const report = (): ImportSummary => ({
    ...counts,
    stopped,
    dry_run: isTrial,
    ignored: lines.ignored,
    lines: failures,
    truncated: failures.length < counts.failed,
  });

  try {
    for await (const some of lines) {
      for (const line of some) {
        await pause();
        await add(line);
        if (stopped) return report();
      }
    }
    if (batch.length > 0) await flush();
    return report();
  } catch (cause) {
    if (!(cause instanceof HttpError) || done === 0) throw cause;
    const { status, code, message, extra } = cause;
    throw new HttpError(status, code, message, { ...extra, report: report() }, { cause: cause.cause });
  }
}

const isReadable = (line: ParsedLine): line is ParsedLine & { readonly record: Body } =>
  !(line.record instanceof HttpError);

/** Writes all valid lines. @returns the result of each line */
async function writeEach(lines: readonly ParsedLine[], write: WriteMany): Promise<readonly WriteOutcome[]> {
  const bodies = lines.filter(isReadable).map(({ record }) => record);
  const written = bodies.length === 0 ? [] : await write(bodies);
  let next = 0;
  return lines.flatMap(({ record }) =>
    record instanceof HttpError ? toRejectedRecord(record) : (written[next++] ?? []),
  );
}

/** Writes the lines before the first failed one. @returns their results, and the failure if there was one */
async function writeUntilFailure(
  lines: readonly ParsedLine[],
  write: WriteMany,
): Promise<readonly WriteOutcome[]> {
  const unreadable = lines.findIndex((line) => !isReadable(line));
  const readable = unreadable === -1 ? lines : lines.slice(0, unreadable);
  const results = await writeEach(readable, write);
  const first = results.findIndex((result) => typeof result === 'object');
  if (first === -1) {
    const failure = lines[unreadable]?.record;
    return failure instanceof HttpError ? [...results, toRejectedRecord(failure)] : results;
  }
  // Nothing was written. The lines before the failed one can be written now, unless another line failed concurrently.
  const before = await writeUntilFailure(readable.slice(0, first), write);
  return before.some((result) => typeof result === 'object')
    ? before
    : [...before, ...results.slice(first, first + 1)];
}
