import { createHash } from 'node:crypto';
import {
  type BackupEnd,
  type BackupLines,
  type Count,
  Counter,
  incompleteBackup,
  type Manifest,
  parseLine,
  parseManifest,
} from './file.ts';

/** Receives a backup's contents. */
interface BackupVisitor {
  /** Receives a batch of a table's rows. Each row is a JSON array of strings. */
  readonly rows: (table: string, rows: readonly string[]) => Promise<void>;
}

/** Contents of a verified backup's first and last lines. */
export interface VerifiedBackup {
  readonly manifest: Manifest;
  readonly end: BackupEnd['end'];
}

/**
 * Reads a backup from the first to the last line, and verifies counts and checksums.
 * @param begin receives the manifest and returns a visitor for the rows; if absent, the rows are only
 * verified
 * @throws UserError if the backup is incomplete or was altered
 */
export async function verifyBackup(
  lines: BackupLines,
  begin?: (manifest: Manifest) => Promise<BackupVisitor>,
): Promise<VerifiedBackup> {
  const digest = createHash('sha256');
  const counters = new Map<string, Counter>();
  let manifest: Manifest | undefined;
  let sink: BackupVisitor | undefined;
  let table: string | undefined;
  let end: BackupEnd['end'] | undefined;
  for await (const batch of lines) {
    let rows: string[] = [];
    const flush = async () => {
      if (rows.length > 0 && table !== undefined) await sink?.rows(table, rows);
      rows = [];
    };
    for (const line of batch) {
      if (end !== undefined) throw incompleteBackup('it contains trailing data');
      if (line.startsWith('[')) {
        const counter = table === undefined ? undefined : counters.get(table);
        if (counter === undefined) throw incompleteBackup('a row does not belong to any table');
        counter.add(line);
        rows.push(line);
      } else if (manifest === undefined) {
        manifest = parseManifest(line);
        sink = await begin?.(manifest);
      } else {
        await flush();
        const entry = parseLine(line) as Partial<BackupEnd> & { readonly table?: string };
        if (entry.end !== undefined) {
          end = entry.end;
          continue;
        }
        table = entry.table ?? '';
        counters.set(table, new Counter());
      }
      digest.update(line).update('\n');
    }
    await flush();
  }
  if (manifest === undefined) throw incompleteBackup('it is empty');
  if (end === undefined) throw incompleteBackup('its end is missing');
  if (end.sha256 !== digest.digest('hex')) throw incompleteBackup('it was altered');
  compare(end.tables, new Map([...counters].map(([name, { count }]) => [name, count])), 'the backup');
  return { manifest, end };
}

/** Compares the tables' counts and digests. @throws UserError for the first table that differs */
export function compare(
  expected: Readonly<Record<string, Count>>,
  actual: ReadonlyMap<string, Count>,
  subject: string,
): void {
  for (const [table, { rows, digest }] of Object.entries(expected)) {
    const count = actual.get(table);
    if (count?.rows === rows && count.digest === digest) continue;
    throw incompleteBackup(
      `${subject} has ${count?.rows ?? 'no'} rows in ${table}${count?.rows === rows ? ', but their contents differ' : ` instead of ${rows}`}`,
    );
  }
}
