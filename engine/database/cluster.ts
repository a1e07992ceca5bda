import { randomUUID } from 'node:crypto';
import { existsSync, openAsBlob } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { PGlite } from '@electric-sql/pglite';

/** An empty cluster, which the build of the package makes: PGlite's initdb takes seconds. A clone has none. */
const archive = fileURLToPath(new URL('cluster.tar.gz', import.meta.url));

/**
 * The setting of a database (in pg_db_role_setting) that tells clusters apart: those of one archive have the same system
 * identifier.
 */
export const clusterSetting = 'crm.cluster';

/** Creates an empty cluster in a folder of the given name. */
export async function createCluster(folder: string): Promise<void> {
  const ready = existsSync(archive) ? { loadDataDir: await openAsBlob(archive) } : {};
  const client = await PGlite.create({ dataDir: folder, ...ready });
  await client.exec(`alter database postgres set ${clusterSetting} = '${randomUUID()}'`);
  await client.close();
}

/** @returns the archive's bytes; called by the build */
export async function clusterArchive(): Promise<Uint8Array> {
  const client = await PGlite.create();
  const dump = await client.dumpDataDir('gzip');
  await client.close();
  return new Uint8Array(await dump.arrayBuffer());
}
