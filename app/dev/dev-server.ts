import { existsSync, type FSWatcher, readdirSync, rmSync, watch } from 'node:fs';
import { dirname, join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import type { FastifyInstance } from 'fastify';
import type { Resource } from '../../engine/compile/index.ts';
import type { Database } from '../../engine/database/index.ts';
import { UserError } from '../../engine/errors.ts';
import { createSwitchableListener } from '../../engine/http/index.ts';
import { applyPending, createMigration, type MigrationPlan, planChanges } from '../../engine/schema/index.ts';
import type { Source } from '../../engine/yaml/index.ts';
import { refreshSchemas } from '../commands/editors.ts';
import { checkModules } from '../commands/model-commands.ts';
import { planOn, planText } from '../commands/plan-commands.ts';
import { type Config, loadConfig } from '../config.ts';
import { modelOf, openInstance } from '../instance.ts';
import { type ModuleFiles, readModuleFiles } from '../load-modules.ts';
import {
  buildService,
  compileResources,
  divideResources,
  loadResources,
  readDefinitions,
} from '../serve/build.ts';
import { listen, urlOf } from '../serve/listen.ts';
import type { Instance } from '../services.ts';

/** A server that applies edits to the definitions. */
export interface DevServer extends Pick<Instance, 'resources' | 'database'> {
  readonly url: string;
  /** Handles a key press. The key "y" runs the pending plan, and any other key discards it. */
  readonly press: (key: string) => void;
  readonly close: () => Promise<void>;
}

/** Debounce interval, in milliseconds. Editors save in several steps. */
const settleMs = 80;

const unchangedNote = 'The previous definitions are still served.';

/**
 * Serves definitions that are being edited, without interrupting requests. Saved changes are served after the
 * tables are migrated. On the embedded database, plans that only add tables or columns run automatically, and
 * other plans must be confirmed with a key press.
 * @param print receives messages for the user
 */
export async function startDevServer(initial: Config, print: (text: string) => void): Promise<DevServer> {
  /** The configuration with the latest modules that could be loaded. */
  let config = initial;
  await writeAdditions(config);
  // Replicas would lag behind migrations.
  const instance = await openInstance({ ...config, serves: true, replicaAddresses: [] });
  // The text of a named statement can change with the definitions, so statements are not prepared by name.
  const database = withoutStatementNames(instance.database);
  const appOf = async (resources: readonly Resource[]): Promise<FastifyInstance> => {
    const app = await buildService({
      ...instance,
      config: { ...instance.config, modules: config.modules },
      database,
      ...divideResources(resources),
    });
    await app.ready();
    return app;
  };
  const first = await readFiles(config);
  let servedText = first.served;
  let modulesText = first.modules.text;
  let version = 0;
  const listener = createSwitchableListener(
    await appOf([...instance.resources, ...(instance.retiredResources ?? [])]),
  );
  const { server } = listener;
  await listen(
    {
      listen: (address) =>
        new Promise((resolve, reject) => server.once('error', reject).listen(address, () => resolve(''))),
    },
    config,
    '',
  ).catch(async (cause: unknown) => {
    await instance.database.close();
    throw cause;
  });

  /** Runs the plan that needs confirmation. */
  let pendingPlan: (() => Promise<void>) | undefined;
  /**
   * Contents of the files that were last processed. Editors and git touch files several times, so unchanged
   * contents are ignored.
   */
  let lastText: string | undefined;
  /** Whether the saved definitions were last reported as not served. */
  let isBehind = false;
  const reportBehind = (text: string): void => {
    isBehind = true;
    print(text);
  };

  /** Reads the saved files and serves them, or reports why they cannot be served. */
  const processEdits = async (): Promise<void> => {
    const startedAt = performance.now();
    const { sources, text, served, modules } = await settledFiles(config);
    if (text === lastText) return;
    lastText = text;
    pendingPlan = undefined;
    if (modules.text !== modulesText) {
      config = await loadConfig(config.environment, ++version);
      modulesText = modules.text;
    }
    await refreshSchemas(config);
    const resources = compileResources(config, sources);
    checkModules(config, resources);
    const plan = await planOn(config, modelOf(resources, config), {}, database);
    // The plan reads the migrations again. If files have changed since, for example by a pull, it would compare the
    // previous definitions with new migrations. The watcher reports the change.
    if ((await readFiles(config)).text !== text) {
      lastText = undefined;
      return;
    }
    const pending = [...(plan.database?.pending ?? []), ...(plan.database?.unfinished ?? [])];
    const isSame = served === servedText;
    if (isSame && pending.length === 0) {
      if (isBehind) print('The files are valid, and their definitions are already served.');
      isBehind = false;
      return;
    }
    if (plan.undecided.length > 0) {
      reportBehind(`${planText(plan, undefined)}\n\n${unchangedNote}`);
      return;
    }
    const change = { resources, plan, text: served, startedAt };
    const changesTables = plan.statements.length > 0 || pending.length > 0;
    const isEmbedded = config.databaseAddress === undefined;
    if (!changesTables || (isEmbedded && onlyAdds(plan))) {
      await serve(change, changesTables);
      return;
    }
    pendingPlan = () => serve({ ...change, startedAt: performance.now() }, true);
    reportBehind(
      `${planText(plan, undefined)}\n\n${unchangedNote} Press y to migrate and serve the saved definitions, or any other key to cancel.`,
    );
  };

  /** Migrates the database and replaces the served definitions. */
  const serve = async (
    { resources, plan, text, startedAt }: PendingChange,
    changesTables: boolean,
  ): Promise<void> => {
    const app = await appOf(resources);
    try {
      const migrate = async () => {
        const migrationFile =
          plan.statements.length > 0 ? await writeMigration(config, resources, plan) : undefined;
        try {
          const applied = await applyPending(instance.database, config);
          print(`Applied ${applied.join(', ')}.`);
        } catch (cause) {
          if (migrationFile !== undefined)
            for (const file of [migrationFile, migrationFile.replace(/\.ts$/, '.json')]) rmSync(file);
          throw cause;
        }
      };
      // The previous definitions still work, because the tables only gained columns.
      if (changesTables && onlyAdds(plan)) await migrate();
      await listener.swap(app, changesTables && !onlyAdds(plan) ? migrate : undefined);
    } catch (cause) {
      lastText = undefined;
      await app.close();
      throw cause;
    }
    servedText = text;
    isBehind = false;
    print(
      `Serving the saved definitions${changesOf(plan)} (${Math.round(performance.now() - startedAt)} ms).`,
    );
  };

  let queueEnd: Promise<void> = Promise.resolve();
  /** Runs work after all previously queued work. */
  const queue = (work: () => Promise<void>): void => {
    queueEnd = queueEnd.then(work).catch((cause: Error) => {
      const isExpected = cause instanceof UserError;
      reportBehind(`${isExpected ? cause.message : `Unexpected error: ${cause.message}`}\n${unchangedNote}`);
    });
  };
  let timer: NodeJS.Timeout | undefined;
  const onChange = (): void => {
    clearTimeout(timer);
    timer = setTimeout(queue, settleMs, processEdits);
  };
  const watchers: FSWatcher[] = [config.resources, config.migrations, ...first.modules.folders].map(
    (folder) => watch(folder, onChange),
  );

  return {
    resources: instance.resources,
    database: instance.database,
    url: urlOf({ server }, config.host),
    press: (key) => {
      const run = pendingPlan;
      if (run === undefined) return;
      pendingPlan = undefined;
      if (key === 'y') queue(run);
      else {
        lastText = undefined;
        print(`Canceled. ${unchangedNote}`);
      }
    },
    close: async () => {
      for (const watcher of watchers) watcher.close();
      clearTimeout(timer);
      await queueEnd;
      await listener.close();
      await instance.database.close();
    },
  };
}

/** Time after which files are read even if they are still changing, in milliseconds. */
const maxSettleMs = 10_000;

/** Reads the definitions and migration names once no file is being written. */
async function settledFiles(config: Config): Promise<Files> {
  const deadline = performance.now() + maxSettleMs;
  for (let files = await readFiles(config); ; ) {
    await pause(settleMs / 2);
    // Checked before the files are read, because git can change a file that has been read and then finish.
    const isIncomplete = isGitRunning(config.resources);
    const latest = await readFiles(config);
    // An incomplete checkout, or a file that a shell has truncated but not yet written, would be mistaken for an edit.
    const isSettled =
      !isIncomplete && latest.text === files.text && latest.sources.every(({ text }) => text.trim() !== '');
    if (isSettled || performance.now() > deadline) return latest;
    files = latest;
  }
}

interface Files {
  readonly sources: readonly Source[];
  readonly modules: ModuleFiles;
  /** The definitions and modules as a single string, for comparison. */
  readonly served: string;
  /** All files as a single string, for comparison. */
  readonly text: string;
}

async function readFiles(config: Config): Promise<Files> {
  const sources = await readDefinitions(config);
  const modules = await readModuleFiles(config);
  const served = textOf(sources) + modules.text;
  return { sources, modules, served, text: served + readdirSync(config.migrations).join() };
}

/** Returns whether git is changing files. It locks its index while doing so. */
const isGitRunning = (folder: string): boolean =>
  existsSync(join(folder, '.git/index.lock')) ||
  (dirname(folder) !== folder && isGitRunning(dirname(folder)));

interface PendingChange {
  readonly resources: readonly Resource[];
  readonly plan: MigrationPlan;
  readonly text: string;
  readonly startedAt: number;
}

const textOf = (sources: readonly Source[]): string => JSON.stringify(sources);

/** Returns a database that does not prepare statements by name, in transactions either. */
const withoutStatementNames = (database: Database): Database => ({
  ...database,
  run: (statement, context) => database.run({ ...statement, name: '' }, context),
  atomically: (work, context) =>
    database.atomically((run) => work((statement) => run({ ...statement, name: '' })), context),
});

/** Returns whether a plan only adds to existing definitions and tables. */
const onlyAdds = ({ statements, checks, api }: MigrationPlan): boolean =>
  checks.length === 0 &&
  api.every(({ kind }) => kind === 'added' || kind === 'looser') &&
  statements.every(
    ({ risks, touches }) =>
      touches !== 'rewrites' && !risks.includes('destructive') && !risks.includes('needs a restart'),
  );

/** Writes a migration for additions made while the server was not running. Only for the embedded database. */
async function writeAdditions(config: Config): Promise<void> {
  if (config.databaseAddress !== undefined) return;
  const resources = await loadResources(config);
  const plan = await planChanges(config, modelOf(resources, config), [], {}, undefined);
  if (plan.statements.length > 0 && plan.undecided.length === 0 && onlyAdds(plan))
    await writeMigration(config, resources, plan);
}

/**
 * Writes a plan's migration, named after its first change.
 * @returns the file, or undefined if nothing has changed
 */
async function writeMigration(
  config: Config,
  resources: readonly Resource[],
  { api }: MigrationPlan,
): Promise<string | undefined> {
  const [firstChange] = api;
  const name =
    firstChange === undefined ? 'edit' : `${firstChange.kind}_${firstChange.name.replaceAll('.', '_')}`;
  return (await createMigration(config, modelOf(resources, config), name.slice(0, 60))).file;
}

const changesOf = ({ api }: MigrationPlan): string =>
  api.length === 0 ? '' : `: ${api.map(({ kind, name }) => `${kind} ${name}`).join(', ')}`;
