import { setTimeout as pause } from 'node:timers/promises';
import { sql } from 'kysely';
import {
  connectionsOf,
  type Database,
  type DatabaseConfig,
  sqlState,
} from '../../../engine/database/index.ts';
import type { DoctorCheck, Finding } from '../../../engine/modules/index.ts';
import { transaction } from '../../../engine/tables/index.ts';

type OnDatabase = DoctorCheck<{ readonly config: DatabaseConfig; readonly database: Database }>;

/** The texts of the first row of a query; null is an empty one. */
async function firstRow({ run }: Database, text: string): Promise<readonly string[]> {
  const [row = []] = await run({ name: '', text, values: [] });
  return row.map((value) => String(value ?? ''));
}

/** A check of a PostgreSQL server, which the embedded database has none of. */
const onServer = (name: string, find: OnDatabase['run']): OnDatabase => ({
  name,
  needs: ['config', 'database'],
  run: (subject) => (subject.database.kind === 'embedded' ? [] : find(subject)),
});

const oldest = 15;

/** What is wrong with a version of PostgreSQL. @param number as server_version_num has it */
export const versionFindings = (number: number): readonly Finding[] =>
  number >= oldest * 10_000
    ? []
    : [
        {
          place: `PostgreSQL ${Math.floor(number / 10_000)}`,
          problem: `the service needs PostgreSQL ${oldest} or newer`,
          advice: 'Upgrade the server with pg_upgrade, or restore a dump on a newer server.',
        },
      ];

const version = onServer('version of PostgreSQL', async ({ database }) => {
  const [number] = await firstRow(database, "select current_setting('server_version_num')");
  return versionFindings(Number(number));
});

/** How far clocks may differ, in milliseconds. */
const tolerableMs = 2000;

const time = onServer('time', async ({ database }) => {
  const before = Date.now();
  const [ms] = await firstRow(
    database,
    'select (extract(epoch from clock_timestamp()) * 1000)::bigint::text',
  );
  const after = Date.now();
  const difference = Math.round(Number(ms) - (before + after) / 2);
  if (Math.abs(difference) <= tolerableMs + (after - before) / 2) return [];
  const seconds = (Math.abs(difference) / 1000).toFixed(1);
  return [
    {
      place: 'database clock',
      problem: `the database clock is ${seconds} s ${difference > 0 ? 'ahead of' : 'behind'} this machine’s clock`,
      advice: 'Synchronize both with NTP. Logins, keys, rate limits and retries depend on the time.',
    },
  ];
});

const encoding = onServer('encoding and collation', async ({ database }) => {
  const [name = '', encoded, made = '', now = ''] = await firstRow(
    database,
    `select current_database()::text, current_setting('server_encoding'), datcollversion::text, pg_database_collation_actual_version(oid)::text
     from pg_database where datname = current_database()`,
  );
  const place = `database ${name}`;
  const found: Finding[] = [];
  if (encoded !== 'UTF8') {
    const problem = `its encoding is ${encoded}, which cannot store every character`;
    const advice =
      "Create a new one (create database … encoding 'UTF8' template template0;) and move the data with crm move.";
    found.push({ place, problem, advice });
  }
  if (made !== '' && now !== '' && made !== now) {
    const problem = `its indexes were built with collation version ${made}, but the system has ${now}, so indexes can miss rows`;
    const advice = `Run: reindex database "${name}"; alter database "${name}" refresh collation version;`;
    found.push({ place, problem, advice });
  }
  return found;
});

const connectionLimits = onServer('connections', async ({ config, database }) => {
  // A pooler shares them out.
  if (isPooled(database)) return [];
  const limits = await firstRow(
    database,
    `select (current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int
       - coalesce(current_setting('reserved_connections', true)::int, 0))::text,
       nullif(datconnlimit, -1)::text, nullif(rolconnlimit, -1)::text
     from pg_database, pg_roles where datname = current_database() and rolname = current_user`,
  );
  const wanted = connectionsOf(config);
  const places = ['max_connections', 'connection limit of the database', 'connection limit of the role'];
  return limits.flatMap((limit, index) =>
    limit === '' || Number(limit) >= wanted
      ? []
      : [
          {
            place: places[index] ?? '',
            problem: `it allows ${limit} connections, but each node uses up to ${wanted}`,
            advice: 'Raise it, lower DATABASE_POOL or WORKERS, or use PgBouncer.',
          },
        ],
  );
});

/** Whether a pooler is in between: then no writes are grouped. */
const isPooled = ({ writeBatcher: groups }: Database): boolean => groups === undefined;

const pooler = onServer('pooler', async ({ config, database }) => {
  if (!isPooled(database)) return [];
  const settings = await firstRow(
    database,
    "select current_setting('lock_timeout'), current_setting('idle_in_transaction_session_timeout'), current_setting('max_parallel_workers_per_gather'), current_user::text",
  );
  const [lock, idle, workers, role] = settings;
  const wanted = [
    ...(lock === '0' ? [`set lock_timeout = '${config.lockTimeoutMs}ms'`] : []),
    ...(idle === '0' ? ["set idle_in_transaction_session_timeout = '10s'"] : []),
    ...(workers === '0' ? [] : ['set max_parallel_workers_per_gather = 0']),
  ];
  if (wanted.length === 0) return [];
  return [
    {
      place: 'pooler',
      problem:
        'it shares connections between transactions, so the service cannot set these limits for its connections',
      advice: `Set them for the role: ${wanted.map((each) => `alter role "${role}" ${each};`).join(' ')}`,
    },
  ];
});

const settings = onServer('server settings', async ({ database }) => {
  const names = ['fsync', 'full_page_writes', 'synchronous_commit', 'autovacuum'];
  const list = names.map((name) => `current_setting('${name}')`).join(', ');
  const values = await firstRow(database, `select ${list}`);
  const consequences = [
    'a power failure can destroy the database',
    'a power failure can corrupt pages of the database',
    'a server crash can lose recently acknowledged writes',
    'dead rows are never removed, so tables grow',
  ];
  return names.flatMap((name, index) =>
    values[index] === 'off'
      ? [
          {
            place: name,
            problem: `it is off: ${consequences[index]}`,
            advice: `Enable it for the server, the database and the role: alter system set ${name} = on;`,
          },
        ]
      : [],
  );
});

const slots = onServer('replication slots', async ({ database: { run } }) => {
  const text =
    "select slot_name::text, coalesce(pg_size_pretty(pg_current_wal_lsn() - restart_lsn), 'nothing yet') from pg_replication_slots where not active and not pg_is_in_recovery()";
  return (await run({ name: '', text, values: [] })).map(([name, kept]) => ({
    place: `replication slot ${name}`,
    problem: `it has no consumer, so the server keeps its write-ahead log until the disk is full (${kept} so far)`,
    advice: `Start the standby that uses it, or drop it: select pg_drop_replication_slot('${name}');`,
  }));
});

/** How long a replica may take to show how it is, and how long between two looks, in milliseconds. */
const [connectMs, lookMs] = [2500, 100];

const replicas = onServer('replicas', async ({ database }) => {
  if (database.replicas === undefined) return [];
  const status = () => Object.entries(database.replicas?.status() ?? {});
  const end = performance.now() + connectMs;
  const isOpen = () =>
    status().some(([, problem]) => problem !== undefined && /not connected yet|behind$/.test(problem));
  while (isOpen() && performance.now() < end) await pause(lookMs);
  return status().flatMap(([name, problem]) =>
    problem === undefined
      ? []
      : [
          {
            place: `replica ${name}`,
            problem: `it ${problem.replace('not connected', 'is not connected')}, so its reads go to the primary`,
            advice: 'Repair the standby, or remove it from DATABASE_REPLICA_URLS.',
          },
        ],
  );
});

/** SQLSTATEs. */
const [noPrivilege, readOnly, tooManyConnections] = ['42501', '25006', '53300'];

const writes: OnDatabase = {
  name: 'writing',
  needs: ['config', 'database'],
  run: async ({ config, database }) => {
    const write = sql`create temporary table crm_doctor on commit drop as
      select repeat('x', 8000) as filler from generate_series(1, 100)`;
    try {
      await transaction(database, (tables) => write.execute(tables));
      return [];
    } catch (cause) {
      const state = sqlState(cause);
      // A role without temporary tables may write all others.
      if (state === noPrivilege) return [];
      if (state === tooManyConnections) {
        return [
          {
            place: 'DATABASE_URL',
            problem:
              'the connection limit of the server, the database or the role is reached (SQLSTATE 53300)',
            advice:
              'Raise max_connections or the connection limit, lower DATABASE_POOL or WORKERS, disconnect other clients, or use PgBouncer.',
          },
        ];
      }
      const message = (cause as Error).message.split('\n')[0];
      return [
        {
          place: database.kind === 'embedded' ? config.dataFolder : 'DATABASE_URL',
          problem: `the database rejects writes: ${message}`,
          advice:
            state === readOnly
              ? 'It is a standby or read-only. Connect to the primary, or make the database writable again.'
              : 'Check the database server’s disk and log.',
        },
      ];
    }
  },
};

/** The server of the database, as it is set up. */
export const serverChecks = [
  version,
  time,
  encoding,
  connectionLimits,
  pooler,
  settings,
  slots,
  replicas,
  writes,
];
