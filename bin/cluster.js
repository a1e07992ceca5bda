// Creates the archive of an empty cluster that the first start extracts, because initdb takes seconds. Argument: the
// output file. `npm ci` runs this in a clone. Without the archive, the first start is only slower.
import { writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { PGlite } from '@electric-sql/pglite';

const file = process.argv[2] ?? fileURLToPath(new URL('../engine/database/cluster.tar.gz', import.meta.url));
const client = await PGlite.create();
const dump = await client.dumpDataDir('gzip');
await client.close();
writeFileSync(file, new Uint8Array(await dump.arrayBuffer()));
