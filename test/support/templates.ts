// Database templates that are created once per run and copied. Running initdb and creating the tables takes
// seconds, whereas copying is fast.
import { createHash } from 'node:crypto';
import {
  cpSync,
  existsSync,
  globSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import type pg from 'pg';

/** A template's content: its key, and how to fill a new database with it. */
export interface Content {
  /** A string that is equal for equal content. */
  readonly key: string;
  /** Fills a new database and closes it. The environment configures the database as it does for the service. */
  readonly fill: (environment: Readonly<Record<string, string>>) => Promise<void>;
}

const project = join(import.meta.dirname, '../..');
const hashOf = (key: string) => createHash('sha256').update(key).digest('hex').slice(0, 16);

let own: string | undefined;
/** Returns the runner's folder. A test file that is run on its own uses its own folder. */
export function templatesFolder(): string {
  const shared = process.env.TEST_TEMPLATES ?? own;
  if (shared !== undefined) return shared;
  const made = mkdtempSync(join(tmpdir(), 'crm-templates-'));
  // Not node:test's `after`, which would apply to the current test.
  process.once('exit', () => rmSync(made, { recursive: true, force: true }));
  own = made;
  return made;
}

/** Copies the data folder of an embedded database with this content to a path that does not exist yet. */
export async function copyFolder(content: Content, to: string): Promise<void> {
  cpSync(await templateFolder(content), to, { recursive: true });
}

/** PostgreSQL's own template databases. They account for two thirds of the files and are never opened. */
const unopened = /\/pgdata\/base\/[14]$/;

/**
 * Creates the template of an embedded database if it does not exist.
 * @returns its folder
 */
async function templateFolder({ key, fill }: Content): Promise<string> {
  const from = await clusterFolder();
  return folderOnce(join(templatesFolder(), hashOf(key)), async (data) => {
    cpSync(from, data, { recursive: true, filter: (path) => !unopened.test(path) });
    await fill({ DATA_DIR: data });
  });
}

/**
 * Creates an embedded database without tables. Because this takes longer than all other templates, it is kept
 * between runs until PGlite or the code that opens it changes.
 * @returns its folder, which must not be modified
 */
export async function clusterFolder(): Promise<string> {
  const sources = globSync('engine/database/*.ts', { cwd: project }).sort();
  const texts = ['package-lock.json', ...sources].map((file) => readFileSync(join(project, file), 'utf8'));
  const kept = join(project, 'node_modules/.cache/crm-cluster', hashOf(texts.join()));
  const parent = dirname(kept);
  mkdirSync(parent, { recursive: true });
  // Other complete folders belong to other versions. A folder created today might be in use by another
  // checkout.
  for (const name of existsSync(kept) ? [] : readdirSync(parent)) {
    const other = join(parent, name);
    // Another checkout can remove it at the same time.
    const stats = statSync(other, { throwIfNoEntry: false });
    const isOld = stats !== undefined && stats.mtimeMs < Date.now() - 24 * 3_600_000;
    if (!name.includes('-') && isOld) rmSync(other, { recursive: true, force: true });
  }
  return folderOnce(kept, async (data) => {
    // Imported lazily, because the runner needs nothing else from the service.
    const { readConfig } = await import('../../app/config.ts');
    const { openDatabase } = await import('../../engine/database/open.ts');
    await (await openDatabase(readConfig({ DATA_DIR: data }), [])).close();
  });
}

/**
 * Creates a folder atomically if it does not exist.
 * @returns the folder
 */
export async function folderOnce(folder: string, make: (path: string) => Promise<void>): Promise<string> {
  if (existsSync(folder)) return folder;
  const building = mkdtempSync(`${folder}-`);
  await make(join(building, 'data'));
  try {
    renameSync(join(building, 'data'), folder);
  } catch (cause) {
    // Another process created an identical folder first.
    if (!existsSync(folder)) throw cause;
  }
  rmSync(building, { recursive: true, force: true });
  return folder;
}

/**
 * Ensures that a server has a database with this content, to be copied with `create database … template`.
 * @param client a connection to another database on the server
 * @returns its name
 */
export async function templateDatabase(
  client: pg.Client,
  server: string,
  { key, fill }: Content,
): Promise<string> {
  const name = `template_${hashOf(key)}`;
  // Concurrent test files wait here for the first one.
  await client.query('select pg_advisory_lock(hashtext($1))', [name]);
  try {
    const { rowCount } = await client.query('select from pg_database where datname = $1', [name]);
    if (rowCount === 0) {
      const url = new URL(server);
      url.pathname = `/${name}_new`;
      await client.query(`drop database if exists ${name}_new`);
      await client.query(`create database ${name}_new`);
      await fill({ DATABASE_URL: url.href });
      await client.query(`alter database ${name}_new rename to ${name}`);
    }
  } finally {
    await client.query('select pg_advisory_unlock(hashtext($1))', [name]);
  }
  return name;
}
