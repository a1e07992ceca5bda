import { setTimeout as delay } from 'node:timers/promises';
import {
  type Database,
  type DatabaseConfig,
  isDeadlock,
  migrationsTable,
  sqlState,
  withAdvisoryLock,
} from '../database/index.ts';
import { UserError } from '../errors.ts';
import { literal, quote } from '../sql/index.ts';
import { swapStatements } from './column-swap.ts';
import { assertNoDependents } from './dependents.ts';
import { migrationError, partlyMigrated } from './migration-error.ts';
import { migrationName, migrationPath } from './migration-log.ts';
import { type LiveNode, nodesIn, nodesWithoutMigration } from './nodes.ts';
import { dropViews, OlderModels } from './older-models.ts';
import {
  finishingContract,
  lockPauseMs,
  lockTimedOut,
  lockTries,
  migrationLock,
  removeStatementTimeout,
  type SessionRow,
  withLockTimeout,
} from './session.ts';
import {
  type BatchUpdate,
  backfillSql,
  type ColumnSwap,
  type DeferredStep,
  lockRowsSql,
  recalculateRowsSql,
  stepJson,
} from './steps.ts';

/**
 * Runs the remaining steps of migrations, each in its own transaction.
 * @returns the names of the completed migrations
 */
export async function finishMigrations({ orm }: Database, config: DatabaseConfig): Promise<string[]> {
  return withAdvisoryLock(orm, migrationLock, async (em) => {
    await removeStatementTimeout(em);
    const table = quote(migrationsTable);
    // Concurrent index builds cannot run in a transaction. They do not wait for the transaction that holds
    // the lock, because it is idle and does not have a snapshot.
    const connection = orm.em.fork();
    const execute = (sql: string) => connection.getConnection().execute<SessionRow[]>(sql, [], 'all');
    const rows = await execute(
      `select "name", "remaining" from ${table} where "remaining" is not null order by "id"`,
    );
    for (const { name = '', remaining } of rows) {
      let steps = JSON.parse(remaining ?? '[]') as DeferredStep[];
      let attempts = 0;
      const storeSql = (remainingSteps: readonly DeferredStep[]) =>
        `update ${table} set "remaining" = ${stepJson(remainingSteps)} where "name" = ${literal(name)}`;
      for (let [step, ...rest] = steps; step !== undefined; [step, ...rest] = steps) {
        let current = '';
        try {
          if (typeof step !== 'string' && 'build' in step) {
            for (const statement of step.build) {
              current = statement;
              await execute(statement);
            }
            await execute(storeSql(rest));
          } else if (typeof step === 'string' || 'sql' in step) {
            const sql = typeof step === 'string' ? step : step.sql;
            current = sql;
            const stepRest = rest;
            await withLockTimeout(connection, async (run) => {
              await run(sql);
              await run(storeSql(stepRest));
            }).catch((cause: unknown) => {
              if (typeof step !== 'string' || sqlState(cause) !== needsNoTransaction) throw cause;
              // Earlier versions stored the statements of an index build as strings. They stay in the log
              // until the next step is stored, so that all of them run again if one is interrupted.
              return execute(sql);
            });
          } else if ('swap' in step) {
            const { swap } = step;
            await withLockTimeout(connection, async (run) => {
              const nodes = await nodesIn(run);
              const outdatedNodes = nodesWithoutMigration(nodes, migrationName(name));
              assertNodesUpdated(name, outdatedNodes, partlyMigrated);
              // Views for nodes that have stopped in the meantime would depend on the old columns.
              await dropViews(run, nodes);
              const retyped = {
                table: swap.table,
                columns: [...swap.columns, ...swap.gone].map((column) => column.name),
                known: knownParts(swap),
              };
              await assertNoDependents(run, retyped, partlyMigrated);
              const { immediate, contract } = swapStatements(swap, outdatedNodes, new OlderModels());
              for (const statement of immediate) {
                current = statement;
                await run(statement);
              }
              await run(
                `update ${table} set "contract" = ${contract.length === 0 ? '"contract"' : `(coalesce("contract", '[]')::jsonb || ${literal(JSON.stringify(contract))})::text`} where "name" = ${literal(name)}`,
              );
              await run(storeSql(rest));
            });
          } else if (step.rollups !== undefined) {
            const recalculation = step;
            rest = await withLockTimeout(connection, async (run) => {
              current = lockRowsSql(recalculation);
              const rows = await run(current);
              const keys = rows.map(({ organization, id }) => ({
                organization: String(organization),
                id: String(id),
              }));
              const last = keys.at(-1);
              if (last !== undefined) {
                // Only this second statement sees the records that other transactions wrote before the rows were locked.
                current = recalculateRowsSql(recalculation, keys);
                await run(current);
              }
              const nextSteps = stepsAfter(recalculation, last, rest);
              await run(storeSql(nextSteps));
              return nextSteps;
            });
          } else {
            const backfill = step;
            current = backfillSql(backfill);
            rest = await withLockTimeout(connection, async (run) => {
              if (backfill.missing === undefined) await run(`set local crm.filling = 'on'`);
              const [lastRow] = await run(current);
              const nextSteps = stepsAfter(backfill, lastRow, rest);
              await run(storeSql(nextSteps));
              return nextSteps;
            });
          }
        } catch (cause) {
          const isBatch = typeof step !== 'string' && ('fill' in step || 'swap' in step);
          const isConflict = sqlState(cause) === lockTimedOut || isDeadlock(cause);
          if (isBatch && isConflict && ++attempts < lockTries) {
            await delay(lockPauseMs / 10);
            continue;
          }
          throw migrationError(cause, migrationPath(config, name), current, partlyMigrated) ?? cause;
        }
        steps = rest;
        attempts = 0;
      }
      await execute(
        `update ${table} set "remaining" = null, "contract" = nullif("contract", ${literal(finishingContract)}) where "name" = ${literal(name)}`,
      );
    }
    return rows.map(({ name }) => migrationName(name));
  });
}

/** Returns the steps that remain after a batch: its step starts after the batch's last row, and is complete without one. */
const stepsAfter = (
  step: BatchUpdate,
  lastRow: Readonly<Record<string, unknown>> | undefined,
  rest: readonly DeferredStep[],
): DeferredStep[] =>
  lastRow === undefined
    ? [...rest]
    : [{ ...step, after: [String(lastRow.organization), String(lastRow.id)] }, ...rest];

/** SQLSTATE for a statement that cannot run in a transaction. */
const needsNoTransaction = '25001';

/** Returns the names of the indexes and foreign keys that a swap replaces. */
const knownParts = ({ known, drops }: ColumnSwap): readonly string[] =>
  // Earlier versions stored only statements, each ending in the quoted name, instead of the names.
  known ?? drops.map((sql) => sql.split('"').at(-2) ?? '');

/**
 * Checks that nodes without the migration can use views of the old schema.
 * @throws UserError with the name of a node that cannot
 */
export function assertNodesUpdated(
  name: string,
  outdatedNodes: readonly LiveNode[],
  progressNote: string,
): void {
  const incompatible = outdatedNodes.find(({ seesViews }) => !seesViews);
  if (incompatible === undefined) return;
  throw new UserError(
    `${name} renames or converts a table or column, and ${incompatible.description}. Its connections share a pooler, so it cannot use the old schema. ${progressNote} Stop it, then migrate again.`,
  );
}
