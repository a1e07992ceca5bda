// Databases that are made once a run and copied: initdb and a schema take seconds, a copy takes a moment.
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

/** What a template holds: a name for its content, and how to fill a new database with it. */
export interface Content {
  /** The same for the same content; any text. */
  readonly key: string;
  /** Fills a new database and closes it. The environment names it, as the service's own does. */
  readonly fill: (environment: Readonly<Record<string, string>>) => Promise<void>;
}

const project = join(import.meta.dirname, '../..');
const hashOf = (key: string) => createHash('sha256').update(key).digest('hex').slice(0, 16);

let own: string | undefined;
/** The folder of the runner of all files; a file that is run by itself has one of its own. */
export function templatesFolder(): string {
  const shared = process.env.TEST_TEMPLATES ?? own;
  if (shared !== undefined) return shared;
  const made = mkdtempSync(join(tmpdir(), 'crm-templates-'));
  // Not node:test's `after`, which means the test that happens to run.
  process.once('exit', () => rmSync(made, { recursive: true, force: true }));
  own = made;
  return made;
}

/** Copies the data folder of an embedded database with some content to a path where nothing is. */
export async function copyFolder(content: Content, to: string): Promise<void> {
  cpSync(await templateFolder(content), to, { recursive: true });
}

/** PostgreSQL's own template databases, which are two thirds of the files; nothing ever opens them. */
const unopened = /\/pgdata\/base\/[14]$/;

/** Makes the template of an embedded database unless it is there. @returns its folder */
async function templateFolder({ key, fill }: Content): Promise<string> {
  const from = await clusterFolder();
  return folderOnce(join(templatesFolder(), hashOf(key)), async (data) => {
    cpSync(from, data, { recursive: true, filter: (path) => !unopened.test(path) });
    await fill({ DATA_DIR: data });
  });
}

/**
 * An embedded database without a table. It takes longest of all, so it is kept between runs, for as long as
 * neither PGlite nor the room that opens it has changed.
 * @returns its folder, which must not be changed
 */
export async function clusterFolder(): Promise<string> {
  const sources = globSync('engine/database/*.ts', { cwd: project }).sort();
  const texts = ['package-lock.json', ...sources].map((file) => readFileSync(join(project, file), 'utf8'));
  const kept = join(project, 'node_modules/.cache/crm-cluster', hashOf(texts.join()));
  const parent = dirname(kept);
  mkdirSync(parent, { recursive: true });
  // What stands beside it with a whole name is of another version; one that was made today may be in use by another checkout.
  for (const name of existsSync(kept) ? [] : readdirSync(parent)) {
    const other = join(parent, name);
    const isOld = statSync(other).mtimeMs < Date.now() - 24 * 3_600_000;
    if (!name.includes('-') && isOld) rmSync(other, { recursive: true, force: true });
  }
  return folderOnce(kept, async (data) => {
    // Only now, for the runner needs nothing else of the service.
    const { readConfig } = await import('../../app/config.ts');
    const { openDatabase } = await import('../../engine/database/open.ts');
    await (await openDatabase(readConfig({ DATA_DIR: data }), [])).close();
  });
}

/** Makes a folder whole or not at all, unless it is there. @returns the folder */
export async function folderOnce(folder: string, make: (path: string) => Promise<void>): Promise<string> {
  if (existsSync(folder)) return folder;
  const building = mkdtempSync(`${folder}-`);
  await make(join(building, 'data'));
  try {
    renameSync(join(building, 'data'), folder);
  } catch (cause) {
    // Another process was faster; what it made is the same.
    if (!existsSync(folder)) throw cause;
  }
  rmSync(building, { recursive: true, force: true });
  return folder;
}

/**
 * Makes sure that a server has a database with some content, to be copied with `create database … template`.
 * @param client a connection to another database of the server
 * @returns its name
 */
export async function templateDatabase(
  client: pg.Client,
  server: string,
  { key, fill }: Content,
): Promise<string> {
  const name = `template_${hashOf(key)}`;
  // Files that run at the same time wait here for the first of them.
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
