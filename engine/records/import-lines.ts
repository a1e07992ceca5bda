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

/** What became of an import. */
export interface ImportSummary {
  readonly created: number;
  readonly updated: number;
  readonly failed: number;
  /** Whether it ended at a line that failed: the lines before that one are written, it and all after it are not. */
  readonly stopped: boolean;
  readonly dry_run: boolean;
  /** Columns of CSV that are no writable field. */
  readonly ignored: readonly string[];
  /** The first lines that failed, see {@link maxReported}. */
  readonly lines: readonly FailedLine[];
  /** Whether more lines failed than `lines` has. */
  readonly truncated: boolean;
}

/** Lines that one statement writes, and bytes of them, at most. */
const [maxLines, maxBytes] = [1000, 4 * 1024 * 1024];
/** Failed lines that a report has at most. */
const maxReported = 1000;
/** The values of a record that no two records of one statement may share, as texts. */
export const keysOf = ({ uniques }: ResourceDefinition, record: Body): readonly string[] =>
  uniques.flatMap((unique) =>
    unique.some((field) => isBlankValue(record, field))
      ? []
      : [JSON.stringify(unique.map(({ name }) => [name, record[name]]))],
  );

/** What {@link importLines} needs. */
interface Importing {
  readonly write: WriteMany;
  readonly keysOf: (record: Body) => readonly string[];
  readonly onProgress: (lines: number) => void;
}

/** Writes lines in their order, as many with each statement as it takes. */
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
  /** Adds a line, after a write if it takes one. */
  const add = async (line: ParsedLine): Promise<void> => {
    const own = line.record instanceof HttpError ? [] : keysOf(line.record);
    // The second record with a key is about the first one, which must be there then.
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

/** Writes all lines that can be written. @returns the result of each line */
async function writeEach(lines: readonly ParsedLine[], write: WriteMany): Promise<readonly WriteOutcome[]> {
  const bodies = lines.filter(isReadable).map(({ record }) => record);
  const written = bodies.length === 0 ? [] : await write(bodies);
  let next = 0;
  return lines.flatMap(({ record }) =>
    record instanceof HttpError ? toRejectedRecord(record) : (written[next++] ?? []),
  );
}

/** Writes the lines before the first one that fails. @returns their results, and that of the failure if there is one */
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
  // Nothing was written. Without the failure the lines before it can be, unless another one failed meanwhile.
  const before = await writeUntilFailure(readable.slice(0, first), write);
  return before.some((result) => typeof result === 'object')
    ? before
    : [...before, ...results.slice(first, first + 1)];
}
