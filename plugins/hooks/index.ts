// Hooks: measures hooks and actions of modules, and calls the hooks for committed changes, at least once and in order.
// May import engine, change-log.

import type { Resource } from '../../engine/compile/index.ts';
import { type Database, failureDetails } from '../../engine/database/index.ts';
import type { Module } from '../../engine/modules/index.ts';
import { hookCheck } from './check.ts';
import { callMeter, observeCalls } from './metrics.ts';
import { rejectOwnRequests } from './own-requests.ts';
import { commitHooks, commitRunner } from './run.ts';
import { places } from './tables.ts';

/** Services used by hooks. */
interface HookServices {
  readonly database: Database;
  readonly resources: readonly Resource[];
}

const hooksOf = (resources: readonly Resource[]) => resources[0]?.context.hooks;

/** Interval at which new changes are read, in milliseconds. */
const pollMs = 250;

/** Measures the hooks and actions of modules, and calls their `afterCommit` hooks. */
export const hooksModule: Module<HookServices, unknown, Pick<HookServices, 'database'>> = {
  name: 'hooks',
  tables: [places],
  metrics: ({ resources }) => [callMeter(hooksOf(resources)).metrics],
  register: (app, { database, resources }) => {
    const hooks = hooksOf(resources);
    if (hooks === undefined) return;
    observeCalls(app, hooks);
    if (database.kind === 'embedded') rejectOwnRequests(app, hooks);
    const modules = commitHooks(hooks);
    if (modules.length === 0) return;
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
        await run(() => isStopping);
        isFailing = false;
      } catch (cause) {
        // Logs the failure only once while the database is unavailable.
        if (!isFailing) app.log.warn(failureDetails(cause), 'failed to read changes for hooks; will retry');
        isFailing = true;
      }
    });
  },
  checks: [hookCheck],
};
