import { readdir, readFile, stat } from 'node:fs/promises';
import { basename, join, relative } from 'node:path';
import { UserError } from '../errors.ts';
import type { Source } from '../yaml/index.ts';

const maxBytes = 1024 * 1024;

/**
 * Reads every `*.yaml` of a folder, by name.
 * @param isShipped whether they come with the engine, and instances extend them
 * @throws UserError when the folder cannot be read or a file is larger than 1 MiB
 */
export async function readSources(folder: string, isShipped = false): Promise<Source[]> {
  const names = await readdir(folder).catch((cause: NodeJS.ErrnoException) => {
    throw new UserError(`cannot read the folder ${folder}: ${cause.code}`);
  });
  const files = names.filter((name) => /\.ya?ml$/.test(name)).sort();
  return Promise.all(
    files.map(async (name) => {
      const path = join(folder, name);
      const unreadable = (cause: NodeJS.ErrnoException) => {
        throw new UserError(`cannot read ${path}: ${cause.code}`);
      };
      const { size } = await stat(path).catch(unreadable);
      if (size > maxBytes) throw new UserError(`${path} is larger than 1 MiB`);
      return {
        file: relative(process.cwd(), path) || path,
        text: await readFile(path, 'utf8').catch(unreadable),
        isShipped,
      };
    }),
  );
}

/** The file's name without folder and ending. */
export const stem = (file: string): string => basename(file).replace(/\.ya?ml$/, '');
