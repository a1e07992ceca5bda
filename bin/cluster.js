// Makes the empty cluster that a first start copies, since initdb takes seconds. Argument: the file. A clone runs it with
// `npm ci`; without it a first start takes longer, no more.
import { writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { PGlite } from '@electric-sql/pglite';

const file = process.argv[2] ?? fileURLToPath(new URL('../engine/database/cluster.tar.gz', import.meta.url));
const client = await PGlite.create();
const dump = await client.dumpDataDir('gzip');
await client.close();
writeFileSync(file, new Uint8Array(await dump.arrayBuffer()));
