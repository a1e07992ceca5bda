import { existsSync } from 'node:fs';
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { fileReason, UserError } from '../../engine/errors.ts';

/**
 * Returns the names of the files in an output folder, or an empty list if it does not exist.
 * @param contents name of the generated files in messages, for example "a client"
 * @param marker a file that identifies the generated files
 * @throws UserError if the folder contains other files
 */
export async function readOutputFolder(
  folder: string,
  { contents, marker }: { readonly contents: string; readonly marker: string },
): Promise<readonly string[]> {
  const existing: readonly string[] = await readdir(folder).catch((cause: NodeJS.ErrnoException) => {
    if (cause.code === 'ENOENT') return [];
    throw new UserError(`${folder} cannot be read: ${fileReason(cause)}`, { cause });
  });
  if (existing.length > 0 && !existsSync(join(folder, marker)))
    throw new UserError(`${folder} is not empty and does not contain ${contents}. Choose an empty folder.`);
  return existing;
}
