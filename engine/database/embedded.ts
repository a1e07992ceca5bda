import { statfsSync } from 'node:fs';
import type { PGlite } from '@electric-sql/pglite';
import type { EntitySchema } from '@mikro-orm/core';
import { PgliteDriver, MikroORM as PgliteOrm } from '@mikro-orm/pglite';
import type { SqlEntityManager } from '@mikro-orm/postgresql';
import { fileReason, UserError } from '../errors.ts';
import { createCluster, startParams } from './cluster.ts';
import type { Servers } from './database.ts';
import { embeddedExtensions } from './extensions.ts';
import { copyCluster, type FolderWatch, prepareCluster, restrictAccess, watchFolder } from './folder.ts';
import { embeddedLimits } from './limits.ts';
import type { Release } from './lock.ts';
import { ormOptions } from './orm.ts';
import { runPrepared } from './prepared.ts';
import { serveSession } from './session-socket.ts';
import { analyzeAfterWrites } from './statistics.ts';
import { parsers } from './types.ts';
import type { DatabaseConfig } from './variables.ts';

/**
 * Opens the embedded database (PGlite) in the data folder.
 * @param release releases the folder's lock; called when the database is closed
 * @throws UserError with a one-line message if the folder is unusable
 */
export async function openEmbedded(
  config: DatabaseConfig,
  entities: readonly EntitySchema[],
  release: Release,
): Promise<Servers> {
  try {
    const orm = await PgliteOrm.init<PgliteDriver, SqlEntityManager<PgliteDriver>>({
      ...ormOptions(entities, config),
      driver: PgliteDriver,
      dbName: await prepareCluster(config.dataFolder, createCluster),
      driverOptions: { parsers, extensions: embeddedExtensions, startParams },
    });
    const client = await orm.em.getConnection().getNativeClient();
    const watch = watchFolder(config.dataFolder);
    guard(client, watch);
    restrictAccess(config.dataFolder);
    const prepared = runPrepared(client);
    const run = withFolderCheck(watch, prepared.run);
    // Analyzing a table blocks all other statements, so the samples are small.
    await client.exec('set default_statistics_target = 10');
    const { promise: terminated, resolve: terminate } = Promise.withResolvers<Error>();
    const closeSocket = config.serves
      ? await serveSession(
          client,
          config.dataFolder,
          withFolderCheck(watch, (messages) => client.execProtocolRaw(messages)),
          () =>
            terminate(new UserError('the embedded database has stopped; all acknowledged writes are stored')),
        )
      : async () => {};
    const stopStatistics = analyzeAfterWrites((text) => run({ name: '', text, values: [] }));
    return {
      kind: 'embedded',
      orm,
      limits: embeddedLimits(config),
      primary: {
        run,
        transaction: (work) => withFolderCheck(watch, () => prepared.transaction(work))(),
      },
      lost: Promise.race([watch.lost, terminated]),
      copyTo: (folder) =>
        client.transaction(async (transaction) => {
          await transaction.exec('checkpoint');
          await copyCluster(config.dataFolder, folder);
        }),
      close: async () => {
        await closeSocket();
        await stopStatistics();
        // Closing PGlite would write to a folder that this process no longer owns.
        if (!watch.isLost()) {
          await orm.close(true);
          // MikroORM closes the client only if it has run a query.
          if (!client.closed) await client.close();
          restrictAccess(config.dataFolder);
        }
        watch.close();
        release();
      },
    };
  } catch (cause) {
    release();
    if (cause instanceof UserError) throw cause;
    throw new UserError(
      `the data folder ${config.dataFolder} cannot be opened: ${reason(cause, config.dataFolder)}`,
      { cause },
    );
  }
}

/** Prevents MikroORM from acknowledging writes to a deleted folder. */
function guard(client: PGlite, watch: FolderWatch): void {
  const query = withFolderCheck(watch, client.query.bind(client) as PGlite['query']);
  const transaction = withFolderCheck(watch, client.transaction.bind(client) as PGlite['transaction']);
  Object.assign(client, { query, transaction });
}

/** Wraps work so that it fails if the folder was deleted by the time it finishes. */
const withFolderCheck =
  <Args extends unknown[], Result>(
    { assertPresent }: FolderWatch,
    work: (...args: Args) => Promise<Result>,
  ) =>
  async (...args: Args): Promise<Result> => {
    try {
      return await work(...args);
    } finally {
      assertPresent();
    }
  };

/**
 * Explains in one line why the cluster cannot be opened. Errors from the WASM file system contain only a
 * number, and PostgreSQL exits with the same message for any damage to its files.
 */
function reason(cause: unknown, folder: string): string {
  const { message, errno, code } = cause as { message?: unknown; errno?: unknown; code?: unknown };
  if (errno === noSpace || code === 'ENOSPC') return fileReason({ code: 'ENOSPC' });
  const isAborted = abortPattern.test(String(message));
  if (isAborted || rejectedPattern.test(String(message))) {
    if (freeBytes(folder) < minimumFreeBytes) return fileReason({ code: 'ENOSPC' });
    const what = isAborted ? 'damaged' : 'damaged or from another version of PostgreSQL';
    return `its files are ${what}. Move the folder away and restore a backup`;
  }
  if (typeof message === 'string' && message !== '') return message.split('\n')[0] ?? message;
  return `its file system failed (${String(errno ?? cause)})`;
}

/** Matches messages from an aborted WebAssembly module. */
const abortPattern = /Aborted\(|RuntimeError|unreachable|out of bounds|exited|program has already aborted/i;

/** PGlite's message if PostgreSQL rejects the cluster. */
const rejectedPattern = /failed to initialize/i;

/** PostgreSQL needs space for one segment of the write-ahead log to start. */
const minimumFreeBytes = 16 * 1024 * 1024;

function freeBytes(folder: string): number {
  try {
    const { bavail, bsize } = statfsSync(folder);
    return bavail * bsize;
  } catch {
    return Number.POSITIVE_INFINITY;
  }
}

/** WASI's error number for ENOSPC. */
const noSpace = 51;
