import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createFolder, type DatabaseConfig } from '../database/index.ts';
import { UserError } from '../errors.ts';
import type { Change } from './changes/change.ts';
import { sqlOf } from './changes/index.ts';
import type { Model } from './model.ts';
import { assertReferencesStay, changeOf, type Intent } from './model-change.ts';
import { migrationSequences, patchFile } from './sequences.ts';

/**
 * Checks that a migration exists for every change to the definitions. Does not need a database.
 * @throws UserError with the command to run, or with the changes that are not allowed
 */
export async function assertMigrationsComplete(config: DatabaseConfig, model: Model): Promise<void> {
  assertReferencesStay(config, model);
  const { changes } = await changeOf(config, model);
  if (changes.length === 0) return;
  throw new UserError(
    'the resource definitions have changes without a migration. Run "npm run crm -- migrate --create <name>", review the file, then run "npm run crm -- migrate"',
  );
}

/** A new migration. */
export interface NewMigration {
  /** Path of the migration file, or undefined if the definitions have not changed. */
  readonly file: string | undefined;
  readonly changes: readonly Change[];
  /** The statements that apply the changes if the tables are not in use. */
  readonly statements: readonly string[];
}

/**
 * Writes a migration with the changes to the definitions since the last migration, and the model patch next
 * to it. Does not need a database and does not apply the migration.
 * @throws UserError for unconfirmed drops, and for the same reasons as {@link changeOf}. No file is written
 */
export async function createMigration(
  config: DatabaseConfig,
  model: Model,
  name: string,
  intent: Intent = {},
): Promise<NewMigration> {
  if (!/^[a-z0-9][a-z0-9_-]{0,60}$/i.test(name)) {
    throw new UserError(`"${name}" is not a valid migration name. Use letters, digits, "-" and "_".`);
  }
  const { changes, undecided, patch } = await changeOf(config, model, intent);
  const statements = sqlOf(changes);
  if (undecided.length > 0) throw new UserError(`${undecided.join('\n')}\nNothing was written.`);
  if (patch === undefined) return { file: undefined, changes, statements };
  const migration = `Migration${nextTime(config)}_${name.replaceAll('-', '_')}`;
  createFolder(config.migrations);
  const patchPath = join(config.migrations, patchFile(migration));
  writeFileSync(patchPath, `${JSON.stringify(patch, null, 2)}\n`, { flag: 'wx' });
  // Changes to the API alone do not affect the tables.
  if (changes.length === 0) return { file: patchPath, changes, statements };
  const file = join(config.migrations, `${migration}.ts`);
  writeFileSync(file, migrationText(changes), { flag: 'wx' });
  return { file, changes, statements };
}

/**
 * Returns the timestamp for a migration name. It is later than every other migration's timestamp, even if that is in
 * the future, because migrations run in name order.
 */
function nextTime(config: DatabaseConfig): string {
  const usedTimes = migrationSequences(config)
    .flatMap(({ files, patches }) => [...files.keys(), ...patches])
    .map((name) => Number(/\d+/.exec(name)?.[0]));
  const now = Number(new Date().toISOString().replace(/\D/g, '').slice(0, 14));
  return String(Math.max(now, ...usedTimes.map((time) => time + 1)));
}

/** Returns the source code of a migration. Migrations cannot be reverted. */
const migrationText = (changes: readonly Change[]): string =>
  `export const changes = ${sourceOf(changes, '')};\n`;

/** Maximum width of a line in a migration file. */
const maxWidth = 110;

/** Formats a JSON value as TypeScript, on one line if it is short. */
function sourceOf(value: unknown, indent: string): string {
  if (typeof value === 'string') return textSource(value);
  if (typeof value !== 'object' || value === null) return JSON.stringify(value);
  const isList = Array.isArray(value);
  const items = (at: string) =>
    Object.entries(value).map(([key, item]) => {
      const name = /^[a-z_]\w*$/i.test(key) ? key : textSource(key);
      return isList ? sourceOf(item, at) : `${name}: ${sourceOf(item, at)}`;
    });
  const [start, end] = isList ? ['[', ']'] : ['{ ', ' }'];
  const line = `${start}${items(indent).join(', ')}${end}`;
  // In a list of changes, each change starts on its own line.
  if (indent !== '' && line.length + indent.length < maxWidth && !line.includes('\n')) return line;
  const inner = `${indent}  `;
  return `${start.trim()}\n${items(inner)
    .map((item) => `${inner}${item},\n`)
    .join('')}${indent}${end.trim()}`;
}

/** Formats a string as a literal, using quotes that it does not contain. */
function textSource(text: string): string {
  const json = JSON.stringify(text);
  if (!text.includes('"')) return text.includes("'") ? json : `'${json.slice(1, -1)}'`;
  const unquoted = json.slice(1, -1).replaceAll('\\"', '"');
  return text.includes("'")
    ? `\`${unquoted.replaceAll('`', '\\`').replaceAll('${', '\\${')}\``
    : `'${unquoted}'`;
}
