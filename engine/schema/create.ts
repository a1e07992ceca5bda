import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createFolder, type DatabaseConfig } from '../database/index.ts';
import { UserError } from '../errors.ts';
import { assertReferencesStay, changeOf, type Intent } from './changes.ts';
import { migrationNames } from './migration-log.ts';
import type { Model } from './model.ts';
import { patchFile } from './sequences.ts';

/**
 * Whether every change of the definitions is in a migration, and can be. Needs no database.
 * @throws UserError with the command to run, or the change that no migration can express
 */
export async function assertMigrationsComplete(config: DatabaseConfig, model: Model): Promise<void> {
  assertReferencesStay(config, model);
  const { statements } = await changeOf(config, model);
  if (statements.length === 0) return;
  throw new UserError(
    'the resource definitions have changes that no migration carries. Run "npm run crm -- migrate --create <name>", review the file, then run "npm run crm -- migrate"',
  );
}

/** A migration just written. */
export interface NewMigration {
  /** undefined if the definitions have no change. */
  readonly file: string | undefined;
  readonly statements: readonly string[];
}

/**
 * Writes a migration with the changes of the definitions since the last one, and next to it what it changes of the model.
 * Needs no database; applies nothing.
 * @throws UserError as {@link changeOf}, and for what is removed and neither retired nor named; then nothing is written
 */
export async function createMigration(
  config: DatabaseConfig,
  model: Model,
  name: string,
  intent: Intent = {},
): Promise<NewMigration> {
  if (!/^[a-z0-9][a-z0-9_-]{0,60}$/i.test(name)) {
    throw new UserError(`"${name}" is no migration name: use letters, digits, "-" and "_"`);
  }
  const { statements, undecided, patch } = await changeOf(config, model, intent);
  if (undecided.length > 0) throw new UserError(`${undecided.join('\n')}\nNothing was written`);
  if (patch === undefined) return { file: undefined, statements };
  const migration = `Migration${nextTime(config)}_${name.replaceAll('-', '_')}`;
  createFolder(config.migrations);
  const about = join(config.migrations, patchFile(migration));
  writeFileSync(about, `${JSON.stringify(patch, null, 2)}\n`, { flag: 'wx' });
  // Tables may be as they were where callers notice something.
  if (statements.length === 0) return { file: about, statements };
  const file = join(config.migrations, `${migration}.ts`);
  writeFileSync(file, migrationText(migration, statements), { flag: 'wx' });
  return { file, statements };
}

/** The time for the name of a migration, in seconds: after those that have just been written, because names are the order. */
function nextTime(config: DatabaseConfig): string {
  const taken = migrationNames(config).map((name) => /\d+/.exec(name)?.[0]);
  for (let ms = Date.now(); ; ms += 1000) {
    const time = new Date(ms).toISOString().replace(/\D/g, '').slice(0, 14);
    if (!taken.includes(time)) return time;
  }
}

/** A migration without a way down: going back would drop values stored since. */
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
