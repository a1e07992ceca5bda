import type { PGlite } from '@electric-sql/pglite';
import pg, { type Pool } from 'pg';
import type { Database } from './database.ts';
import { withTimeout } from './timeout.ts';

/** Checks whether the database responds, without the connections that requests use. */
export interface Probe {
  /**
   * Reads the names of the migrations that the database has.
   * @param timeoutMs after which it counts as not responding
   */
  readonly migrations: (timeoutMs: number) => Promise<readonly string[]>;
  readonly close: () => void;
}

interface Row {
  readonly name: string;
}
const statement = 'select name from crm_migrations';
const names = ({ rows }: { readonly rows: readonly Row[] }) => rows.map(({ name }) => name);

/** A probe of an open database. On PostgreSQL it has a separate connection, opened on first use. */
export async function openProbe({ kind, orm }: Database): Promise<Probe> {
  const native: unknown = await orm.em.getConnection().getNativeClient();
  return kind === 'embedded' ? embeddedProbe(native as PGlite) : postgresProbe(native as Pool);
}

const embeddedProbe = (client: PGlite): Probe => ({
  migrations: async (timeoutMs) => names(await withTimeout(timeoutMs, client.query<Row>(statement))),
  close: () => {},
});

function postgresProbe({ options }: Pool): Probe {
  // The same client as for requests: it finds the server and limits its waits in the same way.
  const Client = (options.Client ?? pg.Client) as new (options: pg.PoolConfig) => pg.Client;
  let client: pg.Client | undefined;
  const drop = () => {
    // Cuts the connection if a query is running, otherwise closes it.
    client?.end().catch(() => {});
    client = undefined;
  };
  const ask = async () => {
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
      // An old connection may have been lost unnoticed, which says nothing about the database now: try again.
      const asked = ask().catch((cause) => {
        drop();
        if (!isReused) throw cause;
        return ask();
      });
      try {
        return names(await withTimeout(timeoutMs, asked));
      } catch (cause) {
        drop();
        throw cause;
      }
    },
    close: drop,
  };
}
