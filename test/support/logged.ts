// Test support: the log of a service in this process.
import { search } from './secrets.ts';

/**
 * Returns the log entries written during the work, one object per line. The service's LOG_LEVEL must include
 * them.
 * @param work receives a function that returns the entries so far
 */
export async function logged(
  work: (lines: () => Record<string, unknown>[]) => Promise<unknown>,
): Promise<Record<string, unknown>[]> {
  const { write } = process.stderr;
  let text = '';
  process.stderr.write = ((chunk: string | Uint8Array) => {
    text += String(chunk);
    return true;
  }) as typeof write;
  const lines = () =>
    text
      .split('\n')
      .filter((line) => line.startsWith('{'))
      .map((line) => JSON.parse(line) as Record<string, unknown>);
  try {
    await work(lines);
  } finally {
    process.stderr.write = write;
  }
  search(text);
  return lines();
}
