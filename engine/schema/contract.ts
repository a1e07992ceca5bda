import {
  type Database,
  type DatabaseConfig,
  migrationsTable,
  sqlState,
  withAdvisoryLockIfFree,
} from '../database/index.ts';
import { literal, quote } from '../sql/index.ts';
import { finishMigrations } from './finish.ts';
import { contractChanges, migrationName } from './migration-log.ts';
import { type LiveNode, listNodes, nodesIn, nodesWithoutMigration } from './nodes.ts';
import { dropViews } from './older-models.ts';
import { runChanges } from './run.ts';
import {
  allowLongStatements,
  type Execute,
  executeIn,
  finishingContract,
  lockTimedOut,
  migrationLock,
  type SessionRow,
  withDatabase,
} from './session.ts';
import { stepJson } from './steps.ts';

/** The progress of the migrations' contracts. */
export interface ContractProgress {
  /** The reason a migration has to wait. Undefined if none has to. */
  readonly blocker?: string;
  /** Whether a contract that has run has remaining steps, which have to finish before other changes. */
  readonly isUnfinished?: boolean;
}

/** Runs the contract statements of migrations that every running node knows, up to the first one with remaining steps. */
export async function contractIn(
  database: Database,
  config: DatabaseConfig,
  execute: Execute,
  nodes: readonly LiveNode[],
): Promise<ContractProgress> {
  const table = quote(migrationsTable);
  const rows = await execute(
    `select "name", "contract", "remaining" from ${table} where "contract" is not null order by "id"`,
  );
  for (const { name = '', contract, remaining: remainingSteps } of rows) {
    if (remainingSteps !== null) return { blocker: `${migrationName(name)} is not finished yet` };
    const [outdatedNode] = nodesWithoutMigration(nodes, migrationName(name));
    if (outdatedNode !== undefined)
      return { blocker: `${migrationName(name)} is waiting for ${outdatedNode.description}` };
    await dropViews(execute, nodes);
    const changes = contractChanges(contract ?? '[]');
    const remaining = await runChanges(database, config, execute, name, { changes });
    await execute(
      `update ${table} set "contract" = ${remaining.length === 0 ? 'null' : literal(finishingContract)}, "remaining" = ${stepJson(remaining)} where "name" = ${literal(name)}`,
    );
    if (remaining.length > 0) return { isUnfinished: true };
  }
  return {};
}

/**
 * Completes expanded migrations once every running node knows them. Nodes call this periodically.
 * @returns whether the migrations were completed
 */
export async function contract(config: DatabaseConfig, { orm }: Pick<Database, 'orm'>): Promise<boolean> {
  const execute = (sql: string) => orm.em.fork().getConnection().execute<SessionRow[]>(sql, [], 'all');
  const pending = await execute(
    `select "name", to_jsonb(m) ->> 'contract' as contract from ${quote(migrationsTable)} m where to_jsonb(m) ->> 'contract' is not null`,
  );
  if (pending.length === 0) return false;
  const nodes = await listNodes(execute);
  if (pending.some(({ name }) => nodesWithoutMigration(nodes, migrationName(name)).length > 0)) return false;
  return withDatabase(config, { resources: [], tables: [] }, async (database) => {
    if (pending.some((row) => row.contract === finishingContract)) {
      // If another node holds the lock, it is running the remaining steps. Otherwise, that node has stopped
      // and this node finishes them.
      if ((await withAdvisoryLockIfFree(database.orm, migrationLock, async () => true)) === undefined)
        return false;
      await finishMigrations(database, config);
    }
    for (;;) {
      const outcome = await withAdvisoryLockIfFree(database.orm, migrationLock, async (em) => {
        await allowLongStatements(em);
        return contractIn(database, config, executeIn(em), await nodesIn(executeIn(em)));
      }).catch((cause: unknown) => {
        if (sqlState((cause as Error).cause ?? cause) !== lockTimedOut) throw cause;
      });
      if (outcome === undefined || outcome.result.blocker !== undefined) return false;
      if (!outcome.result.isUnfinished) return true;
      await finishMigrations(database, config);
    }
  });
}
