import { readFile, stat } from 'node:fs/promises';
import { relative } from 'node:path';
import type { Source, YamlIssue } from './load.ts';

const maxBytes = 1024 * 1024;

/**
 * Reads a YAML file. One that is no text has its problem instead, so that it hides no mistake in another file.
 * @throws NodeJS.ErrnoException
 */
export async function readYaml(path: string): Promise<Source> {
  const file = relative(process.cwd(), path) || path;
  const refused = (message: string, line = 1, column = 1): Source => {
    const problem: YamlIssue = { file, line, column, message };
    return { file, text: '', problem };
  };
  const found = await stat(path);
  if (!found.isFile()) throw Object.assign(new Error(), { code: 'EISDIR' });
  if (found.size > maxBytes) return refused('the file is larger than 1 MiB');
  const bytes = await readFile(path);
  try {
    return { file, text: new TextDecoder('utf-8', { fatal: true }).decode(bytes) };
  } catch {
    if (bytes[0] === 0xff || bytes[0] === 0xfe) {
      return refused('the file is UTF-16: save it as UTF-8');
    }
    // Up to its first wrong byte a text is the same read leniently, where no character is its sign for one.
    const before = bytes.toString('utf8').split('\ufffd', 1)[0] ?? '';
    const lines = before.split('\n');
    return refused(
      'the file is not UTF-8 from here on: save it as UTF-8',
      lines.length,
      (lines.at(-1)?.length ?? 0) + 1,
    );
  }
}
