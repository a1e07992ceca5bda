import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createFolder, type DatabaseConfig } from '../database/index.ts';
import { UserError } from '../errors.ts';
import { assertReferencesStay, changeOf, type Intent } from './changes.ts';
import { migrationNames } from './migration-log.ts';
import type { Model } from './model.ts';
import { patchFile } from './sequences.ts';

/**
 * Checks that a migration exists for every change to the definitions. Does not need a database.
 * @throws UserError with the command to run, or with the changes that are not allowed
 */
export async function assertMigrationsComplete(config: DatabaseConfig, model: Model): Promise<void> {
  assertReferencesStay(config, model);
  const { statements } = await changeOf(config, model);
  if (statements.length === 0) return;
  throw new UserError(
    'the resource definitions have changes without a migration. Run "npm run crm -- migrate --create <name>", review the file, then run "npm run crm -- migrate"',
  );
}

/** A new migration. */
export interface NewMigration {
  /** Path of the file; undefined if the definitions have not changed. */
  readonly file: string | undefined;
  readonly statements: readonly string[];
}

/**
 * Writes a migration with the changes to the definitions since the last one, and its model patch next to it.
 * Does not need a database and does not apply the migration.
 * @throws UserError like {@link changeOf}, and for unconfirmed drops, without writing a file
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
  const { statements, undecided, patch } = await changeOf(config, model, intent);
  if (undecided.length > 0) throw new UserError(`${undecided.join('\n')}\nNothing was written.`);
  if (patch === undefined) return { file: undefined, statements };
  const migration = `Migration${nextTime(config)}_${name.replaceAll('-', '_')}`;
  createFolder(config.migrations);
  const patchPath = join(config.migrations, patchFile(migration));
  writeFileSync(patchPath, `${JSON.stringify(patch, null, 2)}\n`, { flag: 'wx' });
  // Changes that only callers can see do not need statements.
  if (statements.length === 0) return { file: patchPath, statements };
  const file = join(config.migrations, `${migration}.ts`);
  writeFileSync(file, migrationText(migration, statements), { flag: 'wx' });
  return { file, statements };
}

/** Returns the timestamp for a migration's name, which must be unique because migrations run in name order. */
function nextTime(config: DatabaseConfig): string {
  const usedTimes = migrationNames(config).map((name) => /\d+/.exec(name)?.[0]);
  for (let ms = Date.now(); ; ms += 1000) {
    const time = new Date(ms).toISOString().replace(/\D/g, '').slice(0, 14);
    if (!usedTimes.includes(time)) return time;
  }
}

/**
 * Returns the source of a migration. `down` is omitted because it would drop values stored after the
 * migration.
 */
function migrationText(name: string, statements: readonly string[]): string {
  const lines = statements.map((sql) => `    this.addSql(\`${sql.replace(/[`$\\]/g, '\\$&')}\`);`);
  return `import { Migration } from '@mikro-orm/migrations';

export class ${name} extends Migration {
  override name = '${name}';

  override up(): void {
${lines.join('\n')}
  }
}
`;
}
