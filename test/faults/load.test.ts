// Faults under load, with a record of every acknowledged write: no write is lost or duplicated, and the
// service recovers. Short in a test run. `npm run faults` runs each fault for its maximum duration and prints
// the table.
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { formatTable } from '../../engine/modules/command-line.ts';
import { type Disk, mountDisk } from '../support/disk.ts';
import { type Fault, type Outcome, runFault, type World } from '../support/faults.ts';
import { type Driver, drivers } from '../support/instance.ts';
import { connected, makeDatabase, makeDatabaseIn, type Server, startPostgres } from '../support/postgres.ts';
import { type Environment, migrated, migratedStorage, until } from '../support/process.ts';
import { isMeasured, promised } from '../support/promised.ts';
import { copyFolder } from '../support/templates.ts';

const scaled = <T>(short: T, long: T): T => (isMeasured ? long : short);
/** Time limits for recovery after the database returns and after a process starts. */
const databaseBoundMs = promised(5_000);
const startBoundMs = promised(10_000);

type Strike = Omit<Fault, 'writes'>;

const rows: string[][] = [];
const titles = [
  'fault',
  'database',
  'times',
  'requests',
  'acknowledged',
  'lost',
  'doubled',
  'longest outage',
];

/** Causes a fault, prints its table row and checks the outcome. */
async function shows(
  name: string,
  driver: Driver,
  made: Strike,
  environment: Environment,
  boundMs: number,
): Promise<void> {
  const fault = { ...made, writes: scaled(60, 1000) };
  const outcome: Outcome = await runFault(fault, { LOG_LEVEL: 'fatal', ...environment });
  const { requests, acknowledged, lost, doubled, wrong, longestOutageMs } = outcome;
  const outage = `${(longestOutageMs / 1000).toFixed(1)} s of ${boundMs / 1000} s`;
  const figures = [fault.rounds, requests, acknowledged, lost.length, doubled.length].map(String);
  rows.push([name, driver, ...figures, outage]);
  assert.deepEqual({ lost, doubled, wrong }, { lost: [], doubled: [], wrong: [] });
  assert.ok(acknowledged > 0);
  assert.ok(longestOutageMs <= boundMs, outage);
}

after(() => process.stdout.write(`\n${formatTable(titles, rows)}\n\n`));

/** Waits until a random moment between two acknowledgements. */
const anywhere = () => pause(Math.random() * 5);

const ofProcesses: Readonly<Record<string, Pick<Fault, 'strike'>>> = {
  'kill -9 of the server': {
    strike: async ({ service, lasting, restart }) => {
      await anywhere();
      await lasting(() => service().kill());
      await restart();
    },
  },
  'SIGTERM to the server': {
    strike: async ({ service, lasting, restart }) => {
      await anywhere();
      await lasting(async () => {
        service().signal('SIGTERM');
        const { code, stderr } = await service().ended;
        assert.deepEqual([code, stderr], [0, '']);
      });
      await restart();
    },
  },
};
const timesOf: Readonly<Record<string, Readonly<Record<Driver, number>>>> = {
  'kill -9 of the server': { embedded: scaled(4, 20), postgresql: scaled(3, 20) },
  'SIGTERM to the server': { embedded: scaled(1, 10), postgresql: scaled(1, 10) },
};

for (const driver of drivers) {
  describe(`processes (${driver})`, { concurrency: 1 }, () => {
    for (const [name, fault] of Object.entries(ofProcesses)) {
      test(name, async () => {
        const storage = await migratedStorage(driver);
        try {
          const rounds = timesOf[name]?.[driver] ?? 1;
          await shows(name, driver, { ...fault, rounds }, storage.environment, startBoundMs);
        } finally {
          await storage.remove();
        }
      });
    }
  });
}

describe('PostgreSQL', { concurrency: 1 }, () => {
  let server: Server;
  before(async () => {
    server = await startPostgres({ max_connections: '40' });
  });
  after(() => server.stop());

  const sql = (text: string, values: string[] = []) =>
    connected(server.url, (client) => client.query(text, values));
  const goneFor =
    (seconds: number) =>
    ({ lasting }: World) =>
      lasting(async () => {
        await server.pause();
        await pause(seconds * 1000);
        await server.resume();
      });
  const faults: Readonly<Record<string, (url: string) => Strike>> = {
    restarted: () => ({ rounds: scaled(1, 5), strike: goneFor(0) }),
    [`gone for ${scaled(3, 60)} s`]: () => ({ rounds: 1, strike: goneFor(scaled(3, 60)) }),
    'its backends terminated': (url) => ({
      rounds: scaled(5, 50),
      strike: async () => {
        await sql('select pg_terminate_backend(pid) from pg_stat_activity where datname = $1', [
          new URL(url).pathname.slice(1),
        ]);
      },
    }),
    [`paused for ${scaled(3, 20)} s (SIGSTOP)`]: () => ({
      rounds: scaled(1, 3),
      strike: ({ lasting }) =>
        lasting(async () => {
          server.freeze();
          await pause(scaled(3_000, 20_000));
          server.thaw();
        }),
    }),
    'a full pool: every connection waits for a lock': (url) => ({
      rounds: scaled(1, 3),
      strike: ({ lasting }) =>
        lasting(() =>
          connected(url, async (client) => {
            await client.query('begin');
            await client.query('lock table leads in access exclusive mode');
            await pause(scaled(3_000, 20_000));
            await client.query('rollback');
          }),
        ),
    }),
    'a full server: no connection is left for a new one': (url) => ({
      rounds: scaled(1, 3),
      strike: ({ lasting }) => lasting(() => fillServer(url)),
    }),
  };

  /** Closes the service's connections and occupies all of the server's connections for a few seconds. */
  async function fillServer(url: string): Promise<void> {
    const held: Promise<unknown>[] = [];
    const { promise: end, resolve: release } = Promise.withResolvers<void>();
    const database = new URL(url).pathname.slice(1);
    const deadline = performance.now() + scaled(3_000, 20_000);
    await connected(url, async (admin) => {
      await admin.query(`alter role postgres set idle_session_timeout = 0`);
      while (performance.now() < deadline) {
        await admin.query(
          `select pg_terminate_backend(pid) from pg_stat_activity
           where datname = $1 and pid <> pg_backend_pid() and application_name <> 'filler'`,
          [database],
        );
        const filler = new URL(url);
        filler.searchParams.set('application_name', 'filler');
        const batch = Array.from({ length: 40 }, () => connected(filler.href, () => end).catch(() => {}));
        held.push(...batch);
        await pause(200);
      }
      release();
    });
    await Promise.all(held);
  }

  for (const [name, faultOf] of Object.entries(faults)) {
    test(name, async () => {
      const { url, drop } = await makeDatabase(server.url, migrated);
      try {
        await shows(`PostgreSQL ${name}`, 'postgresql', faultOf(url), { DATABASE_URL: url }, databaseBoundMs);
      } finally {
        await drop();
      }
    });
  }
});

describe('a full disk', { concurrency: 1 }, () => {
  let disk: Disk | undefined;
  before(() => {
    disk = mountDisk(160);
  });
  after(() => disk?.remove());

  const full = (on: Disk): Strike => ({
    rounds: scaled(1, 5),
    strike: ({ load, lasting }) =>
      lasting(async () => {
        const before = load.failed();
        on.fill();
        try {
          // Some writes still fit into space that the database has already reserved.
          await until(() => load.failed() > before + 20, 'find no room');
          await pause(scaled(500, 10_000));
        } finally {
          on.free();
        }
      }),
  });

  for (const driver of drivers) {
    test(driver, async (t) => {
      if (disk === undefined) {
        t.skip('not permitted: to mount a disk of its own');
        return;
      }
      const folder = join(disk.path, driver);
      const place = await (driver === 'embedded' ? onDisk(folder) : tablespaceOn(folder));
      try {
        await shows('a full disk', driver, full(disk), place.environment, databaseBoundMs);
      } finally {
        await place.remove();
      }
    });
  }

  async function onDisk(folder: string) {
    await copyFolder(migrated, folder);
    return { environment: { DATA_DIR: folder }, remove: async () => {} };
  }
  /** Creates a database whose tables are on the disk. The write-ahead log is on another disk, as is usual. */
  async function tablespaceOn(folder: string) {
    const server = await startPostgres();
    const url = await makeDatabaseIn(server, folder);
    await migrated.fill({ DATABASE_URL: url });
    return { environment: { DATABASE_URL: url }, remove: server.stop };
  }
});
