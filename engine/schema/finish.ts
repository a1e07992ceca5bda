import { setTimeout as delay } from 'node:timers/promises';
import {
  type Database,
  type DatabaseConfig,
  exclusively,
  migrationsTable,
  sqlState,
} from '../database/index.ts';
import { UserError } from '../errors.ts';
import { literal, quote } from '../sql/index.ts';
import { failureOf, partly } from './failure.ts';
import { migrationName, migrationPath } from './ledger.ts';
import { type LiveNode, nodesIn, withoutMigration } from './nodes.ts';
import { dropViews, OlderModels } from './older-models.ts';
import { asJson, fillSql, type Step, swapStatements } from './retype.ts';
import {
  briefly,
  lockPauseMs,
  lockTimedOut,
  lockTries,
  migrationLock,
  type Row,
  takingAway,
  unlimited,
} from './session.ts';

/** Runs what is left of migrations, step by step, each with its own transaction. @returns the names of those that had something left */
export async function finish({ orm }: Database, config: DatabaseConfig): Promise<string[]> {
  return exclusively(orm, migrationLock, async (em) => {
    await unlimited(em);
    const table = quote(migrationsTable);
    // Such statements wait for every transaction that may see the table, but not for one that has no snapshot.
    const outside = orm.em.fork();
    const execute = (sql: string) => outside.getConnection().execute<Row[]>(sql, [], 'all');
    const rows = await execute(
      `select "name", "remaining" from ${table} where "remaining" is not null order by "id"`,
    );
    for (const { name = '', remaining } of rows) {
      let steps = JSON.parse(remaining ?? '[]') as Step[];
      let waits = 0;
      const stored = (left: readonly Step[]) =>
        `update ${table} set "remaining" = ${asJson(left)} where "name" = ${literal(name)}`;
      for (let [step, ...rest] = steps; step !== undefined; [step, ...rest] = steps) {
        let current = '';
        try {
          if (typeof step === 'string') {
            current = step;
            if (step.includes(' concurrently ')) {
              await execute(step);
              // What an interrupted one leaves is taken away by the step before: both are begun again then.
              if (!step.startsWith('drop ')) await execute(stored(rest));
            } else {
              await briefly(outside, async (run) => {
                await run(current);
                await run(stored(rest));
              });
            }
          } else if ('swap' in step) {
            const { swap } = step;
            await briefly(outside, async (run) => {
              const nodes = await nodesIn(run);
              const behind = withoutMigration(nodes, migrationName(name));
              assertSeen(name, behind, partly);
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
            current = fillSql(filling);
            rest = await briefly(outside, async (run) => {
              if (filling.missing === undefined) await run(`set local crm.filling = 'on'`);
              const [last] = await run(current);
              const next: Step[] =
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
          throw failureOf(cause, migrationPath(config, name), current, partly) ?? cause;
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
export function assertSeen(name: string, behind: readonly LiveNode[], applied: string): void {
  const blind = behind.find(({ seesViews }) => !seesViews);
  if (blind === undefined) return;
  throw new UserError(
    `${name} gives something another name or type, and ${blind.says}: its connections share a pooler, where it cannot go on with the old ones. ${applied} Stop it, then migrate again`,
  );
}
