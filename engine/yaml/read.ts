import { readFile, stat } from 'node:fs/promises';
import { relative } from 'node:path';
import type { Source, YamlIssue } from './load.ts';

const maxBytes = 1024 * 1024;

/**
 * Reads a YAML file. Encoding and size issues are returned in the source, so that issues in other files are reported
 * too.
 * @throws NodeJS.ErrnoException if the file cannot be read
 */
export async function readYaml(path: string): Promise<Source> {
  const file = relative(process.cwd(), path) || path;
  const unreadable = (message: string, line = 1, column = 1): Source => {
    const issue: YamlIssue = { file, line, column, message };
    return { file, text: '', issue };
  };
  const stats = await stat(path);
  if (!stats.isFile()) throw Object.assign(new Error(), { code: 'EISDIR' });
  if (stats.size > maxBytes) return unreadable('the file is larger than 1 MiB');
  const bytes = await readFile(path);
  try {
    return { file, text: new TextDecoder('utf-8', { fatal: true }).decode(bytes) };
  } catch {
    if (bytes[0] === 0xff || bytes[0] === 0xfe) {
      return unreadable('the file is UTF-16. Save it as UTF-8.');
    }
    // Lenient decoding marks the first invalid byte with U+FFFD. The text before it is unaffected.
    const before = bytes.toString('utf8').split('\ufffd', 1)[0] ?? '';
    const lines = before.split('\n');
    return unreadable(
      'invalid UTF-8. Save the file as UTF-8.',
      lines.length,
      (lines.at(-1)?.length ?? 0) + 1,
    );
  }
}
