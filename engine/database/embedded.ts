import { statfsSync } from 'node:fs';
import type { PGlite } from '@electric-sql/pglite';
import type { EntitySchema } from '@mikro-orm/core';
import { PgliteDriver, MikroORM as PgliteOrm } from '@mikro-orm/pglite';
import type { SqlEntityManager } from '@mikro-orm/postgresql';
import { fileReason, UserError } from '../errors.ts';
import { admitted, createAdmission } from './admission.ts';
import { createCluster } from './cluster.ts';
import type { Database } from './database.ts';
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
 * @throws UserError with one line if the folder is unusable
 */
export async function openEmbedded(
  config: DatabaseConfig,
  entities: readonly EntitySchema[],
  release: Release,
): Promise<Database> {
  try {
    const orm = await PgliteOrm.init<PgliteDriver, SqlEntityManager<PgliteDriver>>({
      ...ormOptions(entities, config),
      driver: PgliteDriver,
      dbName: await prepareCluster(config.dataFolder, createCluster),
      driverOptions: { parsers, extensions: embeddedExtensions },
    });
    const client = await orm.em.getConnection().getNativeClient();
    const watch = watchFolder(config.dataFolder);
    guard(client, watch);
    restrictAccess(config.dataFolder);
    const run = checked(watch, runPrepared(client));
    // Analyzing a table blocks everything else, so the samples are small.
    await client.exec('set default_statistics_target = 10');
    const { promise: died, resolve: die } = Promise.withResolvers<Error>();
    const closeSocket = config.serves
      ? await serveSession(
          client,
          config.dataFolder,
          checked(watch, (messages) => client.execProtocolRaw(messages)),
          () => die(new UserError('the embedded database has ended; what was acknowledged is stored')),
        )
      : async () => {};
    const stopStatistics = analyzeAfterWrites((text) => run({ name: '', text, values: [] }));
    const slots = createAdmission(embeddedLimits(config));
    return {
      kind: 'embedded',
      orm,
      admission: slots,
      run: (statement) => admitted(slots, () => run(statement)),
      lost: Promise.race([watch.lost, died]),
      copyTo: (folder) =>
        client.transaction(async (inner) => {
          await inner.exec('checkpoint');
          await copyCluster(config.dataFolder, folder);
        }),
      close: async () => {
        await closeSocket();
        await stopStatistics();
        // Closing would write into a folder that this process no longer owns.
        if (!watch.isLost()) {
          await orm.close(true);
          // MikroORM closes it only if it has run a query.
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

/** Keeps MikroORM from acknowledging writes into a deleted folder. */
function guard(client: PGlite, watch: FolderWatch): void {
  const query = checked(watch, client.query.bind(client) as PGlite['query']);
  const transaction = checked(watch, client.transaction.bind(client) as PGlite['transaction']);
  Object.assign(client, { query, transaction });
}

/** Runs work and fails if the folder has been deleted when it finishes. */
const checked =
  <Given extends unknown[], Result>(
    { assertPresent }: FolderWatch,
    work: (...given: Given) => Promise<Result>,
  ) =>
  async (...given: Given): Promise<Result> => {
    try {
      return await work(...given);
    } finally {
      assertPresent();
    }
  };

/**
 * Returns why the cluster cannot be opened, in one line. Errors of the WASM file system have a number and no message,
 * and PostgreSQL ends with the same message whatever is wrong with its files.
 */
function reason(cause: unknown, folder: string): string {
  const { message, errno, code } = cause as { message?: unknown; errno?: unknown; code?: unknown };
  if (errno === noSpace || code === 'ENOSPC') return fileReason({ code: 'ENOSPC' });
  const isAborted = isAbort.test(String(message));
  if (isAborted || isUnusable.test(String(message))) {
    if (freeBytes(folder) < minimumFreeBytes) return fileReason({ code: 'ENOSPC' });
    const what = isAborted ? 'damaged' : 'damaged or from another version of PostgreSQL';
    return `its files are ${what}. Move the folder away and restore a backup`;
  }
  if (typeof message === 'string' && message !== '') return message.split('\n')[0] ?? message;
  return `its file system failed (${String(errno ?? cause)})`;
}

/** Messages of an aborted WebAssembly module. */
const isAbort = /Aborted\(|RuntimeError|unreachable|out of bounds|exited|program has already aborted/i;

/** PGlite's message if PostgreSQL rejects the cluster. */
const isUnusable = /failed to initialize/i;

/** PostgreSQL needs space for a write-ahead log segment to start. */
const minimumFreeBytes = 16 * 1024 * 1024;

function freeBytes(folder: string): number {
  try {
    const { bavail, bsize } = statfsSync(folder);
    return bavail * bsize;
  } catch {
    return Number.POSITIVE_INFINITY;
  }
}

/** WASI's number for ENOSPC. */
const noSpace = 51;
