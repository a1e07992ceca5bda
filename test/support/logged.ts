// Test support: what a service in this process writes into its log.
import { search } from './secrets.ts';

/** Everything that is logged while some work is done, one object a line. The service needs a LOG_LEVEL that has it. */
export async function logged(work: () => Promise<unknown>): Promise<Record<string, unknown>[]> {
  const { write } = process.stderr;
  let text = '';
  process.stderr.write = ((chunk: string | Uint8Array) => {
    text += String(chunk);
    return true;
  }) as typeof write;
  try {
    await work();
  } finally {
    process.stderr.write = write;
  }
  search(text);
  return text
    .split('\n')
    .filter((line) => line.startsWith('{'))
    .map((line) => JSON.parse(line) as Record<string, unknown>);
}
