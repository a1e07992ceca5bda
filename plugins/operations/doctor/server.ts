import { setTimeout as pause } from 'node:timers/promises';
import { sql } from 'kysely';
import {
  connectionsOf,
  type Database,
  type DatabaseConfig,
  sqlState,
  tooManyConnections,
} from '../../../engine/database/index.ts';
import type { DoctorCheck, Finding } from '../../../engine/modules/index.ts';
import { transaction } from '../../../engine/tables/index.ts';

type OnDatabase = DoctorCheck<{ readonly config: DatabaseConfig; readonly database: Database }>;

/** Returns the values of a query's first row as strings. Null becomes an empty string. */
async function firstRow({ run }: Database, text: string): Promise<readonly string[]> {
  const [row = []] = await run({ name: '', text, values: [] });
  return row.map((value) => String(value ?? ''));
}

/** Creates a check for a PostgreSQL server. The embedded database always passes the check. */
const onServer = (name: string, find: OnDatabase['run']): OnDatabase => ({
  name,
  needs: ['config', 'database'],
  run: (subject) => (subject.database.kind === 'embedded' ? [] : find(subject)),
});

const minVersion = 15;

/** Returns findings about a PostgreSQL version. @param version the value of server_version_num */
export const versionFindings = (version: number): readonly Finding[] =>
  version >= minVersion * 10_000
    ? []
    : [
        {
          location: `PostgreSQL ${Math.floor(version / 10_000)}`,
          message: `the service needs PostgreSQL ${minVersion} or newer`,
          advice: 'Upgrade the server with pg_upgrade, or restore a dump on a newer server.',
        },
      ];

const version = onServer('PostgreSQL version', async ({ database }) => {
  const [number] = await firstRow(database, "select current_setting('server_version_num')");
  return versionFindings(Number(number));
});

/** Tolerated clock difference between the database server and this machine, in milliseconds. */
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
      location: 'database clock',
      message: `the database clock is ${seconds} s ${difference > 0 ? 'ahead of' : 'behind'} this machine’s clock`,
      advice: 'Synchronize both with NTP. Logins, keys, rate limits and retries depend on the time.',
    },
  ];
});

const encoding = onServer('encoding and collation', async ({ database }) => {
  const [name = '', serverEncoding, builtVersion = '', systemVersion = ''] = await firstRow(
    database,
    `select current_database()::text, current_setting('server_encoding'), datcollversion::text, pg_database_collation_actual_version(oid)::text
     from pg_database where datname = current_database()`,
  );
  const location = `database ${name}`;
  const findings: Finding[] = [];
  if (serverEncoding !== 'UTF8') {
    const message = `its encoding is ${serverEncoding}, which cannot store every character`;
    const advice =
      "Create a new one (create database … encoding 'UTF8' template template0;) and move the data with crm move.";
    findings.push({ location, message, advice });
  }
  if (builtVersion !== '' && systemVersion !== '' && builtVersion !== systemVersion) {
    const message = `its indexes were built with collation version ${builtVersion}, but the system has ${systemVersion}, so indexes can miss rows`;
    const advice = `Run: reindex database "${name}"; alter database "${name}" refresh collation version;`;
    findings.push({ location, message, advice });
  }
  return findings;
});

const connectionLimits = onServer('connections', async ({ config, database }) => {
  // A pooler shares its connections between clients, so these limits do not apply to each client.
  if (isPooled(database)) return [];
  const limits = await firstRow(
    database,
    `select (current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int
       - coalesce(current_setting('reserved_connections', true)::int, 0))::text,
       nullif(datconnlimit, -1)::text, nullif(rolconnlimit, -1)::text
     from pg_database, pg_roles where datname = current_database() and rolname = current_user`,
  );
  const required = connectionsOf(config);
  const limitNames = ['max_connections', 'connection limit of the database', 'connection limit of the role'];
  return limits.flatMap((limit, index) =>
    limit === '' || Number(limit) >= required
      ? []
      : [
          {
            location: limitNames[index] ?? '',
            message: `it allows ${limit} connections, but each node uses up to ${required}`,
            advice: 'Raise it, lower DATABASE_POOL or WORKERS, or use PgBouncer.',
          },
        ],
  );
});

/** Reports whether connections go through a pooler, in which case writes are not batched. */
const isPooled = ({ status }: Database): boolean =>
  !status().connections.some(({ pool }) => pool === 'writes');

const pooler = onServer('pooler', async ({ config, database }) => {
  if (!isPooled(database)) return [];
  const settings = await firstRow(
    database,
    "select current_setting('lock_timeout'), current_setting('idle_in_transaction_session_timeout'), current_setting('max_parallel_workers_per_gather'), current_user::text",
  );
  const [lock, idle, workers, role] = settings;
  const statements = [
    ...(lock === '0' ? [`set lock_timeout = '${config.lockTimeoutMs}ms'`] : []),
    ...(idle === '0' ? ["set idle_in_transaction_session_timeout = '10s'"] : []),
    ...(workers === '0' ? [] : ['set max_parallel_workers_per_gather = 0']),
  ];
  if (statements.length === 0) return [];
  return [
    {
      location: 'pooler',
      message:
        'it shares connections between transactions, so the service cannot set these limits for its connections',
      advice: `Set them for the role: ${statements.map((statement) => `alter role "${role}" ${statement};`).join(' ')}`,
    },
  ];
});

const settings = onServer('server settings', async ({ database }) => {
  const names = ['fsync', 'full_page_writes', 'synchronous_commit', 'autovacuum'];
  const list = names.map((name) => `current_setting('${name}')`).join(', ');
  const values = await firstRow(database, `select ${list}`);
  const consequences = [
    'a power failure can destroy the database',
    'a power failure can corrupt database pages',
    'a server crash can lose recently acknowledged writes',
    'dead rows are never removed, so tables grow',
  ];
  return names.flatMap((name, index) =>
    values[index] === 'off'
      ? [
          {
            location: name,
            message: `it is off: ${consequences[index]}`,
            advice: `Enable it for the server, the database and the role: alter system set ${name} = on;`,
          },
        ]
      : [],
  );
});

const slots = onServer('replication slots', async ({ database: { run } }) => {
  const text =
    "select slot_name::text, coalesce(pg_size_pretty(pg_current_wal_lsn() - restart_lsn), 'nothing yet') from pg_replication_slots where not active and not pg_is_in_recovery()";
  return (await run({ name: '', text, values: [] })).map(([name, logSize]) => ({
    location: `replication slot ${name}`,
    message: `it has no consumer, so the server keeps its write-ahead log until the disk is full (${logSize} so far)`,
    advice: `Start the standby that uses it, or drop it: select pg_drop_replication_slot('${name}');`,
  }));
});

/** How long to wait for a replica's state, and the interval between checks, in milliseconds. */
const [connectMs, checkMs] = [2500, 100];

const replicas = onServer('replicas', async ({ database }) => {
  const status = () => Object.entries(database.status().replicas ?? {});
  const deadline = performance.now() + connectMs;
  const isPending = () =>
    status().some(([, message]) => message !== undefined && /not connected yet|behind$/.test(message));
  while (isPending() && performance.now() < deadline) await pause(checkMs);
  return status().flatMap(([name, message]) =>
    message === undefined
      ? []
      : [
          {
            location: `replica ${name}`,
            message: `it ${message.replace('not connected', 'is not connected')}, so its reads go to the primary`,
            advice: 'Repair the standby, or remove it from DATABASE_REPLICA_URLS.',
          },
        ],
  );
});

/** SQLSTATE codes. */
const [noPrivilege, readOnly] = ['42501', '25006'];

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
      // A role that cannot create temporary tables may still write to all other tables.
      if (state === noPrivilege) return [];
      if (state === tooManyConnections) {
        return [
          {
            location: 'DATABASE_URL',
            message:
              'the connection limit of the server, the database or the role has been reached (SQLSTATE 53300)',
            advice:
              'Raise max_connections or the connection limit, lower DATABASE_POOL or WORKERS, disconnect other clients, or use PgBouncer.',
          },
        ];
      }
      const message = (cause as Error).message.split('\n')[0];
      return [
        {
          location: database.kind === 'embedded' ? config.dataFolder : 'DATABASE_URL',
          message: `the database rejects writes: ${message}`,
          advice:
            state === readOnly
              ? 'It is a standby or read-only. Connect to the primary, or make the database writable again.'
              : 'Check the database server’s disk and log.',
        },
      ];
    }
  },
};

/** Checks for the database server and its settings. */
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
