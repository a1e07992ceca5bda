import type { Database } from '../../engine/database/index.ts';
import {
  type CommandLine,
  type CommandResult,
  formatTable,
  jsonResult,
  type RetentionRule,
  retentionBatch,
} from '../../engine/modules/index.ts';
import { type Tables, tablesOf, transaction } from '../../engine/tables/index.ts';
import type { Instance } from '../services.ts';

/** Adds the `prune` command. */
export function pruneCommand({ program, run, withInstance }: CommandLine<Instance>): void {
  program
    .command('prune')
    .description(
      'immediately delete rows older than the retention periods in config.yaml; the service does this every ten minutes',
    )
    .option('--dry-run', 'only count the rows')
    .addOption(jsonResult())
    .action(({ json, dryRun }) =>
      run(
        json,
        withInstance((instance) => prune(instance, dryRun === true)),
      ),
    );
}

async function prune({ database, service }: Instance, isDry: boolean): Promise<CommandResult> {
  const app = await service();
  try {
    const counts: [label: string, count: number][] = [];
    for (const rule of app.retentionRules) {
      const count = isDry
        ? await countExpired(database, rule)
        : await deleteExpired(rule, () => tablesOf(database));
      counts.push([rule.label, count]);
    }
    const rows = counts.map(([label, count]) => [label, String(count)]);
    return {
      json: { dry_run: isDry, removed: Object.fromEntries(counts) },
      text: `${formatTable(['what', isDry ? 'would be removed' : 'removed'], rows)}${isDry ? '\nNothing was removed.' : ''}`,
    };
  } finally {
    await app.close();
  }
}

/** Deletes expired rows in batches. @returns the number of deleted rows */
async function deleteExpired({ steps }: RetentionRule, tables: () => Tables): Promise<number> {
  let total = 0;
  for (const step of steps) {
    for (let count = retentionBatch; count === retentionBatch; total += count) count = await step(tables());
  }
  return total;
}

const rollback = Symbol('undo');

/**
 * Counts expired rows by deleting them in a transaction that is rolled back, so that the rule's condition is not
 * duplicated in a count statement. Rules whose deletes cannot be rolled back count the rows themselves.
 */
async function countExpired(database: Database, rule: RetentionRule): Promise<number> {
  if (rule.count !== undefined) return rule.count(tablesOf(database));
  let count = 0;
  await transaction(database, async (tables) => {
    count = await deleteExpired(rule, () => tables);
    throw rollback;
  }).catch((cause: unknown) => {
    if (cause !== rollback) throw cause;
  });
  return count;
}
