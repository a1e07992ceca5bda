import { createHash, randomBytes } from 'node:crypto';
import { hostname } from 'node:os';
import { type Database, withAdvisoryLock, withAdvisoryLockIfFree } from '../database/index.ts';
import { UserError } from '../errors.ts';
import { literal } from '../sql/index.ts';
import { type Execute, executeIn } from './session.ts';

/** Where nodes say which migrations they know. Not a table of the model: it has to be there before any migration runs. */
export const nodesTable = 'crm_nodes';

/** How often a node says that it runs, and after which time without that it is gone, in milliseconds. */
export const [heartbeatMs, goneAfterMs] = [2000, 15_000];

/** Held by a migration while it decides what running nodes need, and for a moment by a node that starts. */
const nodesLock = 7_263_140_560n;

/** A node that runs. */
export interface LiveNode {
  readonly name: string;
  /** The schema with the tables as it knows them, if they are different. */
  readonly views: string;
  /** Whether its connections look there. Behind a pooler that shares connections they do not. */
  readonly seesViews: boolean;
  readonly migrations: readonly string[];
  /** What to say of it. */
  readonly says: string;
}

export const viewsPrefix = 'crm_views_';

/** The schema of views for nodes with these migrations: their connections look there first. It is made when the tables get ahead of them. */
export const viewsOf = (migrations: readonly string[]): string =>
  `${viewsPrefix}${createHash('sha256').update(migrations.join('\n')).digest('hex').slice(0, 12)}`;

const isSeen = `"seen_at" > now() - interval '${goneAfterMs} milliseconds'`;
const createNodesTable = `create table if not exists "${nodesTable}" ("name" text primary key, "migrations" text not null, "views" text not null, "sees_views" boolean not null, "since" timestamptz not null default now(), "seen_at" timestamptz not null default now())`;

/**
 * The nodes that run, as long as no other one can begin to: until the transaction ends. Those that are gone are forgotten,
 * so that one that comes back notices it.
 */
export async function nodesIn(execute: Execute): Promise<LiveNode[]> {
  await execute(createNodesTable);
  await execute(`select pg_advisory_xact_lock(${nodesLock})`);
  await execute(`delete from "${nodesTable}" where not ${isSeen}`);
  return listNodes(execute);
}

/** The nodes that run at the moment. */
export async function listNodes(execute: Execute): Promise<LiveNode[]> {
  const rows = await execute(
    `select "name", "migrations", "views", "sees_views", to_char("since", 'YYYY-MM-DD HH24:MI') as since, round(extract(epoch from now() - "seen_at"))::text as ago
     from "${nodesTable}" where ${isSeen} order by "name"`,
  );
  return rows.map(({ name, migrations, views, sees_views: sees, since, ago }) => {
    const known = JSON.parse(String(migrations)) as string[];
    return {
      name: String(name),
      views: String(views),
      seesViews: sees === true,
      migrations: known,
      says: `node ${name}, which knows ${known.at(-1) ?? 'no migration'}, runs since ${since}, and was seen ${ago} s ago`,
    };
  });
}

/** Returns the running nodes of a database, one per line, or an empty list if it does not register nodes. */
export async function runningNodes({ kind, orm }: Database): Promise<string[]> {
  if (kind === 'embedded') return [];
  const execute = executeIn(orm.em.fork());
  const [found] = await execute(`select to_regclass('${nodesTable}')::text as name`);
  return found?.name === null ? [] : (await listNodes(execute)).map(({ says }) => says);
}

/** Those that do not know a migration. */
export const nodesWithoutMigration = (nodes: readonly LiveNode[], migration: string): LiveNode[] =>
  nodes.filter(({ migrations }) => !migrations.includes(migration));

/** What becomes of a node that was taken for gone, and comes back. */
export interface NodeReturn {
  /** Checks the node. @throws UserError if something it uses has been dropped */
  readonly check: (execute: Execute) => Promise<void>;
  /** Called with that. */
  readonly lost: (cause: UserError) => void;
}

/** A node that has said that it runs. */
export interface RegisteredNode {
  /** Says again that it runs; never rejects. */
  readonly beat: () => Promise<void>;
  /** Says that it runs no more; never rejects. */
  readonly leave: () => Promise<void>;
}

/**
 * Says that this process runs with the migrations that it has. Only on PostgreSQL: the embedded database has one node.
 * @returns undefined if the database has no place for it yet: `crm migrate` makes it
 */
export async function registerNode(
  database: Database,
  migrations: readonly string[],
  { check, lost }: NodeReturn,
): Promise<RegisteredNode | undefined> {
  if (database.kind === 'embedded') return undefined;
  // Containers may have the same name and process id.
  const name = `${hostname()}:${process.pid}/${randomBytes(3).toString('hex')}`;
  const views = viewsOf(migrations);
  const run = (text: string, ...values: string[]) => database.run({ name: '', text, values });
  const [found] = await run(
    `select to_regclass('${nodesTable}')::text, position('${views}' in current_setting('search_path'))::text`,
  );
  if (found?.[0] === null) return undefined;
  const insert = `insert into "${nodesTable}" ("name", "migrations", "views", "sees_views") values (${literal(name)}, ${literal(JSON.stringify(migrations))}, '${views}', ${found?.[1] !== '0'})
    on conflict ("name") do update set "migrations" = excluded."migrations", "views" = excluded."views", "sees_views" = excluded."sees_views", "since" = now(), "seen_at" = now()`;
  await withAdvisoryLock(database.orm, nodesLock, async (em) => {
    const gone = `delete from "${nodesTable}" where "seen_at" < now() - interval '1 day'`;
    for (const sql of [gone, insert]) await executeIn(em)(sql);
  });
  return {
    beat: async () => {
      const seen = `update "${nodesTable}" set "seen_at" = now() where "name" = $1 returning "name"`;
      const rows = await run(seen, name).catch(() => undefined);
      if (rows?.length !== 0) return;
      // It was away for so long that it was taken for gone. While a migration runs, the next time is early enough.
      await withAdvisoryLockIfFree(database.orm, nodesLock, async (em) => {
        await check(executeIn(em));
        await executeIn(em)(insert);
      }).catch((cause: unknown) => {
        if (cause instanceof UserError) lost(cause);
      });
    },
    leave: async () => {
      await run(`delete from "${nodesTable}" where "name" = $1`, name).catch(() => {});
    },
  };
}
