import { createHash, randomBytes } from 'node:crypto';
import { hostname } from 'node:os';
import { type Database, withAdvisoryLock, withAdvisoryLockIfFree } from '../database/index.ts';
import { UserError } from '../errors.ts';
import { literal } from '../sql/index.ts';
import { type Execute, executeIn } from './session.ts';

/**
 * Table in which nodes register the migrations they know. It is not part of the model, because it has to
 * exist before the first migration.
 */
export const nodesTable = 'crm_nodes';

/**
 * Interval between heartbeats, and the time without heartbeats after which a node is considered stopped, both
 * in milliseconds.
 */
export const [heartbeatMs, expiryMs] = [2000, 15_000];

/** Advisory lock that prevents nodes from registering while a migration depends on the list of running nodes. */
const nodesLock = 7_263_140_560n;

/** A running node. */
export interface LiveNode {
  readonly name: string;
  /**
   * Schema of views that present the tables as defined in the node's model. The schema exists only if the
   * tables have changed.
   */
  readonly views: string;
  /**
   * Whether the node's connections have this schema in their search path. False behind a pooler that shares
   * connections.
   */
  readonly seesViews: boolean;
  readonly migrations: readonly string[];
  /** Description of the node for use in messages. */
  readonly description: string;
}

export const viewsPrefix = 'crm_views_';

/**
 * Returns the name of the view schema for nodes with these migrations. It comes first in their search path,
 * and is created when a migration changes the tables.
 */
export const viewsOf = (migrations: readonly string[]): string =>
  `${viewsPrefix}${createHash('sha256').update(migrations.join('\n')).digest('hex').slice(0, 12)}`;

const isAlive = `"seen_at" > now() - interval '${expiryMs} milliseconds'`;
const createNodesTable = `create table if not exists "${nodesTable}" ("name" text primary key, "migrations" text not null, "views" text not null, "sees_views" boolean not null, "since" timestamptz not null default now(), "seen_at" timestamptz not null default now())`;

/**
 * Returns the running nodes, and prevents other nodes from registering until the transaction ends. Deletes
 * the rows of nodes without recent heartbeats, so that they notice at their next heartbeat that they were
 * considered stopped.
 */
export async function nodesIn(execute: Execute): Promise<LiveNode[]> {
  await execute(createNodesTable);
  await execute(`select pg_advisory_xact_lock(${nodesLock})`);
  await execute(`delete from "${nodesTable}" where not ${isAlive}`);
  return listNodes(execute);
}

/** Returns the nodes with a recent heartbeat. */
export async function listNodes(execute: Execute): Promise<LiveNode[]> {
  const rows = await execute(
    `select "name", "migrations", "views", "sees_views", to_char("since", 'YYYY-MM-DD HH24:MI') as since, round(extract(epoch from now() - "seen_at"))::text as ago
     from "${nodesTable}" where ${isAlive} order by "name"`,
  );
  return rows.map(({ name, migrations, views, sees_views: seesViews, since, ago }) => {
    const names = JSON.parse(String(migrations)) as string[];
    return {
      name: String(name),
      views: String(views),
      seesViews: seesViews === true,
      migrations: names,
      description: `node ${name} (latest migration: ${names.at(-1) ?? 'none'}, running since ${since}, last seen ${ago} s ago)`,
    };
  });
}

/** Describes a database's running nodes, one line each. Empty if the database does not register nodes. */
export async function runningNodes({ kind, orm }: Database): Promise<string[]> {
  if (kind === 'embedded') return [];
  const execute = executeIn(orm.em.fork());
  const [table] = await execute(`select to_regclass('${nodesTable}')::text as name`);
  return table?.name === null ? [] : (await listNodes(execute)).map(({ description }) => description);
}

/** Returns the nodes that do not know a migration. */
export const nodesWithoutMigration = (nodes: readonly LiveNode[], migration: string): LiveNode[] =>
  nodes.filter(({ migrations }) => !migrations.includes(migration));

/** Callbacks for a node that sends a heartbeat after it was considered stopped. */
export interface NodeReturn {
  /** Checks that the node can continue. @throws UserError if a migration dropped something that it uses */
  readonly check: (execute: Execute) => Promise<void>;
  /** Called with the error if the check fails. */
  readonly lost: (cause: UserError) => void;
}

/** This process's registration as a node. */
export interface RegisteredNode {
  /** Sends a heartbeat. Never rejects. */
  readonly beat: () => Promise<void>;
  /** Deletes the registration. Never rejects. */
  readonly leave: () => Promise<void>;
}

/**
 * Registers this process and the migrations it knows. Does nothing for the embedded database, which has only
 * one node.
 * @returns undefined if the database is embedded, or if `crm migrate` has not created the table yet
 */
export async function registerNode(
  database: Database,
  migrations: readonly string[],
  { check, lost: onLost }: NodeReturn,
): Promise<RegisteredNode | undefined> {
  if (database.kind === 'embedded') return undefined;
  // Containers can have the same hostname and process ID.
  const name = `${hostname()}:${process.pid}/${randomBytes(3).toString('hex')}`;
  const views = viewsOf(migrations);
  const run = (text: string, ...values: string[]) => database.run({ name: '', text, values });
  const [row] = await run(
    `select to_regclass('${nodesTable}')::text, position('${views}' in current_setting('search_path'))::text`,
  );
  if (row?.[0] === null) return undefined;
  const insert = `insert into "${nodesTable}" ("name", "migrations", "views", "sees_views") values (${literal(name)}, ${literal(JSON.stringify(migrations))}, '${views}', ${row?.[1] !== '0'})
    on conflict ("name") do update set "migrations" = excluded."migrations", "views" = excluded."views", "sees_views" = excluded."sees_views", "since" = now(), "seen_at" = now()`;
  await withAdvisoryLock(database.orm, nodesLock, async (em) => {
    const deleteOld = `delete from "${nodesTable}" where "seen_at" < now() - interval '1 day'`;
    for (const sql of [deleteOld, insert]) await executeIn(em)(sql);
  });
  return {
    beat: async () => {
      const updateSeen = `update "${nodesTable}" set "seen_at" = now() where "name" = $1 returning "name"`;
      const rows = await run(updateSeen, name).catch(() => undefined);
      if (rows?.length !== 0) return;
      // The row was deleted because heartbeats were missing. If a migration holds the lock, the next
      // heartbeat retries.
      await withAdvisoryLockIfFree(database.orm, nodesLock, async (em) => {
        await check(executeIn(em));
        await executeIn(em)(insert);
      }).catch((cause: unknown) => {
        if (cause instanceof UserError) onLost(cause);
      });
    },
    leave: async () => {
      await run(`delete from "${nodesTable}" where "name" = $1`, name).catch(() => {});
    },
  };
}
