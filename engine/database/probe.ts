import type { PGlite } from '@electric-sql/pglite';
import pg, { type Pool } from 'pg';
import type { Database } from './database.ts';
import { withTimeout } from './timeout.ts';

/** Checks whether the database responds. */
export interface Probe {
  /**
   * Returns the names of the applied migrations.
   * @param timeoutMs time after which the database counts as unresponsive
   */
  readonly migrations: (timeoutMs: number) => Promise<readonly string[]>;
  readonly close: () => void;
}

interface Row {
  readonly name: string;
}
const statement = 'select name from crm_migrations';
const names = ({ rows }: { readonly rows: readonly Row[] }) => rows.map(({ name }) => name);

/** Creates a probe for an open database. On PostgreSQL, it opens a separate connection on first use. */
export async function openProbe({ kind, orm }: Database): Promise<Probe> {
  const native: unknown = await orm.em.getConnection().getNativeClient();
  return kind === 'embedded' ? embeddedProbe(native as PGlite) : postgresProbe(native as Pool);
}

const embeddedProbe = (client: PGlite): Probe => ({
  migrations: async (timeoutMs) => names(await withTimeout(timeoutMs, client.query<Row>(statement))),
  close: () => {},
});

function postgresProbe({ options }: Pool): Probe {
  // Uses the same client class as requests do, so that it finds the server and limits waits in the same way.
  const Client = (options.Client ?? pg.Client) as new (options: pg.PoolConfig) => pg.Client;
  let client: pg.Client | undefined;
  const drop = () => {
    // Disconnects if a query is running, otherwise closes normally.
    client?.end().catch(() => {});
    client = undefined;
  };
  const query = async () => {
    if (client === undefined) {
      client = new Client(options);
      client.on('error', drop);
      await client.connect();
    }
    return client.query<Row>(statement);
  };
  return {
    migrations: async (timeoutMs) => {
      const isReused = client !== undefined;
      // A reused connection might have been lost unnoticed even though the database is available, so retry
      // once.
      const result = query().catch((cause) => {
        drop();
        if (!isReused) throw cause;
        return query();
      });
      try {
        return names(await withTimeout(timeoutMs, result));
      } catch (cause) {
        drop();
        throw cause;
      }
    },
    close: drop,
  };
}
