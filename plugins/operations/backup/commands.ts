import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { Option } from '@commander-js/extra-typings';
import { type Database, describeAddress, isAddress, parseAddress } from '../../../engine/database/index.ts';
import { pluralize, UserError } from '../../../engine/errors.ts';
import { type CommandLine, type CommandResult, jsonResult } from '../../../engine/modules/index.ts';
import { runningNodes, withDatabase } from '../../../engine/schema/index.ts';
import { tablesOf } from '../../../engine/tables/index.ts';
import { noModel, withDump, withSnapshot } from './dump.ts';
import { type BackupLines, linesOf, type Manifest, writeBackup } from './file.ts';
import { type RestoreConfig, type RestoreOptions, type RestoreResult, restoreInto } from './restore.ts';
import { recordRun } from './runs.ts';
import { type VerifiedBackup, verifyBackup } from './walk.ts';

type Line = CommandLine<{ readonly config: RestoreConfig; readonly database: Database }>;

/** Adds the `backup`, `restore` and `move` commands. */
export function backupCommands(line: Line): void {
  const { program, run } = line;
  program
    .command('backup')
    .description('back up the database to a new file; the service can keep running')
    .argument('<file>', 'the file to create, for example crm-2026-11-23.backup')
    .option('--verify', 'also restore the backup into a temporary database and compare every row')
    .addOption(jsonResult())
    .action((file, { json, verify }) => run(json, backup(line, resolve(file), verify === true)));
  program
    .command('restore')
    .description('restore a backup into an empty database or a new DATA_DIR, and compare every row')
    .argument('<file>', 'a file written by "crm backup"')
    .option('--check', 'only restore into a temporary database, to check that the file can be restored')
    .addOption(
      new Option(
        '--keys <what>',
        'disable: revoke every API key, because keys revoked after the backup would become valid again; keep: restore API keys as they were',
      )
        .choices(['disable', 'keep'] as const)
        .default('disable' as const),
    )
    .addOption(jsonResult())
    .action((file, { json, keys, check }) =>
      run(
        json,
        check ? checkRestore(line.config(), resolve(file)) : restore(line.config(), resolve(file), keys),
      ),
    );
  program
    .command('move')
    .description('copy all data to another database, embedded or PostgreSQL, and compare every row')
    .requiredOption('--to <place>', 'an empty database (postgres://user:password@host/name) or a new folder')
    .addOption(jsonResult())
    .action(({ json, to }) => run(json, move(line.config(), to)));
}

const backup = ({ withInstance }: Line, file: string, verify: boolean): Promise<CommandResult> =>
  withInstance(async ({ config, database }) => {
    let counts: (readonly [table: string, rows: number])[] = [];
    const bytes = await recordRun(tablesOf(database), { file, scheduled: false }, () =>
      writeBackup(
        file,
        (save) => withSnapshot(database, config, (snapshot) => withDump(snapshot, config, save)),
        async (path) => {
          const { end } = verify ? await checkFile(config, path) : await verifyBackup(linesOf(path));
          counts = Object.entries(end.tables).map(([table, { rows }]) => [table, rows]);
        },
      ),
    );
    const rows = counts.reduce((sum, [, count]) => sum + count, 0);
    return {
      json: { file, bytes, rows, tables: Object.fromEntries(counts), verified: verify },
      text: `Wrote ${rows} rows from ${counts.length} tables to ${file} (${bytes} bytes)${verify ? ', and verified them by a test restore' : ''}.\nThe file contains all data in the database. Protect it as you would the database.`,
    };
  });

async function restore(
  config: RestoreConfig,
  file: string,
  keys: RestoreOptions['keys'],
): Promise<CommandResult> {
  const { manifest } = await withFileName(file, verifyBackup(linesOf(file)));
  const result = await withFileName(
    file,
    restoreInto(config, manifest, () => linesOf(file), { keys, logins: 'end' }),
  );
  const { rows, tables, ended, migrated, notes } = result;
  const keysText =
    keys === 'keep'
      ? 'API keys were restored as they were, including keys revoked after the backup.'
      : `API keys revoked: ${ended.keys}, because keys revoked after the backup would become valid again. Pass --keys keep to keep them.`;
  return {
    json: { file, made_at: manifest.made_at, rows, tables, keys, ended, migrated, notes },
    text: [
      `Restored ${rows} rows in ${tables} tables from the backup of ${manifest.made_at} and verified every row.`,
      ...(migrated.length > 0 ? [`Applied ${pluralize(migrated.length, 'later migration')}.`] : []),
      `Sessions ended: ${ended.sessions}. Open invitations ended: ${ended.invites}.`,
      keysText,
      'Change feed readers will get a 410 response and must start over.',
      ...notes.map((note) => `Note: ${note}.`),
    ].join('\n'),
  };
}

async function checkRestore(config: RestoreConfig, file: string): Promise<CommandResult> {
  const { rows, tables } = (await withFileName(file, checkFile(config, file))).result;
  return {
    json: { file, rows, tables, ok: true },
    text: `${file} is complete: a test restore verified ${rows} rows in ${tables} tables.`,
  };
}

/**
 * Restores a file into a temporary embedded database and compares every row.
 * @throws UserError if the file cannot be restored
 */
async function checkFile(
  config: RestoreConfig,
  file: string,
): Promise<VerifiedBackup & { readonly result: RestoreResult }> {
  const verifiedBackup = await verifyBackup(linesOf(file));
  const dataFolder = mkdtempSync(join(tmpdir(), 'crm-restore-'));
  try {
    const temporaryConfig = { ...config, ...embeddedIn(dataFolder) };
    const options = { keys: 'keep', logins: 'keep' } as const;
    return {
      ...verifiedBackup,
      result: await restoreInto(temporaryConfig, verifiedBackup.manifest, () => linesOf(file), options),
    };
  } finally {
    rmSync(dataFolder, { recursive: true, force: true });
  }
}

const embeddedIn = (dataFolder: string) => ({ databaseAddress: undefined, replicaAddresses: [], dataFolder });

async function move(config: RestoreConfig, to: string): Promise<CommandResult> {
  const address = isAddress(to) ? parseAddress(to) : undefined;
  const target =
    address === undefined
      ? { ...config, ...embeddedIn(resolve(to)) }
      : { ...config, replicaAddresses: [], databaseAddress: address };
  const { rows, tables, notes } = await withDatabase(config, noModel, async (database) => {
    const [node] = database.isServed ? ['a running service is using DATA_DIR'] : await runningNodes(database);
    if (node !== undefined) {
      throw new UserError(`${node}. Stop it first, because its writes during the move would be lost.`);
    }
    return withDump(database, config, async (lines) => {
      const { manifest, allLines } = await readManifest(lines);
      return restoreInto(target, manifest, () => allLines, { keys: 'keep', logins: 'keep' });
    });
  });
  const nextStep =
    address === undefined
      ? `unset DATABASE_URL and set DATA_DIR to ${target.dataFolder}`
      : `set DATABASE_URL${config.authSecrets.length > 0 ? '' : `, and keep ${join(config.dataFolder, 'auth-secret')}`}`;
  return {
    json: {
      rows,
      tables,
      to: address === undefined ? target.dataFolder : describeAddress(address),
      notes,
    },
    text: [
      `Moved ${rows} rows in ${tables} tables and verified every row. To use the new database, ${nextStep}.`,
      'The old database is unchanged. Do not run the service on it again, or pending messages will be sent twice.',
      'Change feed readers will get a 410 response and must start over.',
      ...notes.map((note) => `Note: ${note}.`),
    ].join('\n'),
  };
}

/**
 * Reads the manifest from lines that can be iterated only once.
 * @returns the manifest, and an iterator over all lines including the manifest
 */
async function readManifest(
  lines: BackupLines,
): Promise<{ readonly manifest: Manifest; readonly allLines: BackupLines }> {
  const iterator = lines[Symbol.asyncIterator]();
  const first = await iterator.next();
  const batch = first.done ? [] : first.value;
  async function* replay(): BackupLines {
    yield batch;
    yield* { [Symbol.asyncIterator]: () => iterator };
  }
  return { manifest: JSON.parse(batch[0] ?? '') as Manifest, allLines: replay() };
}

/** Adds a file's name to the messages of errors that occur while the file is read. */
const withFileName = <T>(file: string, work: Promise<T>): Promise<T> =>
  work.catch((cause: unknown) => {
    throw cause instanceof UserError && cause.message.startsWith('it ')
      ? new UserError(`${file} cannot be restored: ${cause.message}`, { cause })
      : cause;
  });
