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
          advice: 'Upgrade the server: pg_upgrade, or a dump that is restored on a newer one.',
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
      place: 'the clocks',
      problem: `that of the database server is ${seconds} s ${difference > 0 ? 'ahead of' : 'behind'} that of this machine`,
      advice: 'Have NTP set both: logins, keys, rate limits and retries go by the time.',
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
    const problem = `its encoding is ${encoded}, which has not every character`;
    const advice =
      "Make another one with: create database … encoding 'UTF8' template template0; and move there.";
    found.push({ place, problem, advice });
  }
  if (made !== '' && now !== '' && made !== now) {
    const problem = `its texts were sorted by collation ${made}, and the system has ${now}: indexes may miss rows`;
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
            problem: `it leaves ${limit} connections, and each node of this instance uses up to ${wanted}`,
            advice: 'Raise it, lower DATABASE_POOL or WORKERS, or put PgBouncer in between.',
          },
        ],
  );
});

/** Whether a pooler is in between: then no writes are grouped. */
const isPooled = ({ groups }: Database): boolean => groups === undefined;

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
        'it shares connections between transactions, so the service cannot set these limits for its own',
      advice: `Set them for the role: ${wanted.map((each) => `alter role "${role}" ${each};`).join(' ')}`,
    },
  ];
});

const settings = onServer('server settings', async ({ database }) => {
  const names = ['fsync', 'full_page_writes', 'synchronous_commit', 'autovacuum'];
  const list = names.map((name) => `current_setting('${name}')`).join(', ');
  const values = await firstRow(database, `select ${list}`);
  const consequences = [
    'a power cut may destroy the database',
    'a power cut may destroy pages of the database',
    'a crash of the server may lose what was acknowledged just before',
    'dead rows are never removed, and tables grow',
  ];
  return names.flatMap((name, index) =>
    values[index] === 'off'
      ? [
          {
            place: name,
            problem: `it is off: ${consequences[index]}`,
            advice: `Switch it on for the server, the database and the role: alter system set ${name} = on;`,
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
    problem: `nobody reads it, so the server keeps its log until the disk is full (${kept} so far)`,
    advice: `Start the standby that it belongs to, or drop it: select pg_drop_replication_slot('${name}');`,
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
            advice: 'See to the standby, or take it out of DATABASE_REPLICA_URLS.',
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
            problem: 'the server, the database or the role has no connection left (SQLSTATE 53300)',
            advice:
              'Raise max_connections or the connection limit, lower DATABASE_POOL or WORKERS, end other clients, or put PgBouncer in between.',
          },
        ];
      }
      const message = (cause as Error).message.split('\n')[0];
      return [
        {
          place: database.kind === 'embedded' ? config.dataFolder : 'DATABASE_URL',
          problem: `the database takes no writes: ${message}`,
          advice:
            state === readOnly
              ? 'It is a standby or was made read-only: name the primary, or let the database write again.'
              : 'See to the disk of the database, and to its log.',
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
