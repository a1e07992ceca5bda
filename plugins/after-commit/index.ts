// After commit: calls the hooks of modules for changes in the change log, at least once and in order. May import engine, change-log.

import type { Resource } from '../../engine/compile/index.ts';
import type { Database } from '../../engine/database/index.ts';
import type { Module } from '../../engine/modules/index.ts';
import { hookCheck } from './check.ts';
import { commitHooks, commitRunner } from './run.ts';
import { places } from './tables.ts';

/** Services used by hooks after commits. */
interface AfterCommitServices {
  readonly database: Database;
  readonly resources: readonly Resource[];
}

/** Interval at which new changes are read, in milliseconds. */
const pollMs = 250;

/** Calls the `afterCommit` hooks of modules. */
export const afterCommitModule: Module<
  AfterCommitServices,
  unknown,
  Pick<AfterCommitServices, 'database'>
> = {
  name: 'after-commit',
  tables: [places],
  register: (app, { database, resources }) => {
    const hooks = resources[0]?.context.hooks;
    const modules = commitHooks(hooks);
    if (hooks === undefined || modules.length === 0) return;
    const { start, run } = commitRunner(
      { database, resources, hooks, log: (details, message) => app.log.error(details, message) },
      modules,
    );
    app.addHook('onReady', start);
    let isStopping = false;
    let isFailing = false;
    app.addHook('preClose', async () => {
      isStopping = true;
    });
    app.background.every(app, 'hooks after commits', pollMs, async () => {
      try {
        while (!isStopping && (await run(() => isStopping)));
        isFailing = false;
      } catch (cause) {
        // Logs the failure only once while the database is unavailable.
        if (!isFailing) app.log.warn({ err: cause }, 'failed to read changes for hooks; will retry');
        isFailing = true;
      }
    });
  },
  checks: [hookCheck],
};
