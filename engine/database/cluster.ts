import { randomUUID } from 'node:crypto';
import { existsSync, openAsBlob } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { PGlite } from '@electric-sql/pglite';

/**
 * An empty cluster, created by `npm ci` and by the package build (bin/cluster.js), because initdb takes
 * seconds in PGlite.
 */
const archive = fileURLToPath(new URL('cluster.tar.gz', import.meta.url));

/**
 * Database setting (in pg_db_role_setting) that identifies a cluster. Clusters created from the same archive
 * have the same system identifier.
 */
export const clusterSetting = 'crm.cluster';

/**
 * PGlite's parameters, with less memory for shared buffers. By default, each start clears 128 MB, which takes most of
 * its CPU time. Queries read a table of 62 MB equally fast with 16 MB.
 */
export const startParams: string[] = [...PGlite.defaultStartParams, '-c', 'shared_buffers=16MB'];

/** Creates an empty cluster in a folder. */
export async function createCluster(folder: string): Promise<void> {
  const options = existsSync(archive) ? { loadDataDir: await openAsBlob(archive) } : {};
  const client = await PGlite.create({ dataDir: folder, startParams, ...options });
  await client.exec(`alter database postgres set ${clusterSetting} = '${randomUUID()}'`);
  await client.close();
}
