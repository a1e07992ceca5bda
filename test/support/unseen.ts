import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

/** Returns the described responses that no test received, from the files written by described.ts. */
export function unseen(templates: string): readonly string[] {
  const folder = join(templates, 'seen');
  if (!existsSync(folder)) return [];
  const described = new Set<string>();
  const seen = new Set<string>();
  for (const file of readdirSync(folder)) {
    const part = JSON.parse(readFileSync(join(folder, file), 'utf8')) as Record<string, readonly string[]>;
    for (const each of part.described ?? []) described.add(each);
    for (const each of part.seen ?? []) seen.add(each);
  }
  return [...described].filter((each) => !seen.has(each)).sort();
}
