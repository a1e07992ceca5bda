import { setTimeout as delay } from 'node:timers/promises';
import {
  type Database,
  type DatabaseConfig,
  migrationsTable,
  sqlState,
  withAdvisoryLock,
} from '../database/index.ts';
import { UserError } from '../errors.ts';
import { literal, quote } from '../sql/index.ts';
import { migrationError, partlyMigrated } from './migration-error.ts';
import { migrationName, migrationPath } from './migration-log.ts';
import { type LiveNode, nodesIn, nodesWithoutMigration } from './nodes.ts';
import { dropViews, OlderModels } from './older-models.ts';
import { backfillSql, type DeferredStep, stepJson, swapStatements } from './retype.ts';
import {
  lockPauseMs,
  lockTimedOut,
  lockTries,
  migrationLock,
  removeStatementTimeout,
  type SessionRow,
  takingAway,
  withLockTimeout,
} from './session.ts';

/** Runs the remaining steps of migrations, each in its own transaction. @returns the names of the completed migrations */
export async function finishMigrations({ orm }: Database, config: DatabaseConfig): Promise<string[]> {
  return withAdvisoryLock(orm, migrationLock, async (em) => {
    await removeStatementTimeout(em);
    const table = quote(migrationsTable);
    // Such statements wait for every transaction that may see the table, but not for one that has no snapshot.
    const outside = orm.em.fork();
    const execute = (sql: string) => outside.getConnection().execute<SessionRow[]>(sql, [], 'all');
    const rows = await execute(
      `select "name", "remaining" from ${table} where "remaining" is not null order by "id"`,
    );
    for (const { name = '', remaining } of rows) {
      let steps = JSON.parse(remaining ?? '[]') as DeferredStep[];
      let waits = 0;
      const stored = (left: readonly DeferredStep[]) =>
        `update ${table} set "remaining" = ${stepJson(left)} where "name" = ${literal(name)}`;
      for (let [step, ...rest] = steps; step !== undefined; [step, ...rest] = steps) {
        let current = '';
        try {
          if (typeof step === 'string') {
            current = step;
            if (step.includes(' concurrently ')) {
              await execute(step);
              // The step before removes what an interrupted one has left, so both start over.
              if (!step.startsWith('drop ')) await execute(stored(rest));
            } else {
              await withLockTimeout(outside, async (run) => {
                await run(current);
                await run(stored(rest));
              });
            }
          } else if ('swap' in step) {
            const { swap } = step;
            await withLockTimeout(outside, async (run) => {
              const nodes = await nodesIn(run);
              const behind = nodesWithoutMigration(nodes, migrationName(name));
              assertNodesUpdated(name, behind, partlyMigrated);
              // Those of nodes that have gone since it began would hold the old columns.
              await dropViews(run, nodes);
              const { now, contract: later } = swapStatements(swap, behind, new OlderModels());
              for (const statement of now) {
                current = statement;
                await run(statement);
              }
              await run(
                `update ${table} set "contract" = ${later.length === 0 ? '"contract"' : `(coalesce("contract", '[]')::jsonb || ${literal(JSON.stringify(later))})::text`} where "name" = ${literal(name)}`,
              );
              await run(stored(rest));
            });
          } else {
            const filling = step;
            current = backfillSql(filling);
            rest = await withLockTimeout(outside, async (run) => {
              if (filling.missing === undefined) await run(`set local crm.filling = 'on'`);
              const [last] = await run(current);
              const next: DeferredStep[] =
                last === undefined
                  ? rest
                  : [{ ...filling, after: [String(last.organization), String(last.id)] }, ...rest];
              await run(stored(next));
              return next;
            });
          }
        } catch (cause) {
          if (typeof step !== 'string' && sqlState(cause) === lockTimedOut && ++waits < lockTries) {
            await delay(lockPauseMs / 10);
            continue;
          }
          throw migrationError(cause, migrationPath(config, name), current, partlyMigrated) ?? cause;
        }
        steps = rest;
        waits = 0;
      }
      await execute(
        `update ${table} set "remaining" = null, "contract" = nullif("contract", ${literal(takingAway)}) where "name" = ${literal(name)}`,
      );
    }
    return rows.map(({ name }) => migrationName(name));
  });
}

/** @throws UserError if one of the nodes that need views looks for none */
export function assertNodesUpdated(name: string, behind: readonly LiveNode[], applied: string): void {
  const blind = behind.find(({ seesViews }) => !seesViews);
  if (blind === undefined) return;
  throw new UserError(
    `${name} renames or converts a table or column, and ${blind.says}. Its connections share a pooler, so it cannot use the old schema. ${applied} Stop it, then migrate again.`,
  );
}
