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

/** `prune`. */
export function pruneCommand({ program, run, withInstance }: CommandLine<Instance>): void {
  program
    .command('prune')
    .description(
      'delete rows older than the retention periods in config.yaml now; the service does so every ten minutes',
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
    const counts: [what: string, count: number][] = [];
    for (const pruned of app.retentionRules) {
      const count = isDry ? await counted(database, pruned) : await removed(pruned, () => tablesOf(database));
      counts.push([pruned.what, count]);
    }
    const rows = counts.map(([what, count]) => [what, String(count)]);
    return {
      json: { dry_run: isDry, removed: Object.fromEntries(counts) },
      text: `${formatTable(['what', isDry ? 'would be removed' : 'removed'], rows)}${isDry ? '\nNothing was removed.' : ''}`,
    };
  } finally {
    await app.close();
  }
}

/** Deletes expired rows in batches. @returns the number of rows */
async function removed({ steps }: RetentionRule, tables: () => Tables): Promise<number> {
  let all = 0;
  for (const step of steps) {
    for (let count = retentionBatch; count === retentionBatch; all += count) count = await step(tables());
  }
  return all;
}

const undo = Symbol('undo');

/** How many rows would be removed: they are, in a transaction that is undone, so that no second rule says what is old. */
async function counted(database: Database, pruned: RetentionRule): Promise<number> {
  let count = 0;
  await transaction(database, async (tables) => {
    count = await removed(pruned, () => tables);
    throw undo;
  }).catch((cause: unknown) => {
    if (cause !== undo) throw cause;
  });
  return count;
}
