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
import { planOn } from '../commands/plan-commands.ts';
import { planText } from '../commands/plan-text.ts';
import type { Config } from '../config.ts';
import { modelOf, openInstance } from '../instance.ts';
import { buildService, compileResources, loadResources, readDefinitions } from '../serve/build.ts';
import { listen, urlOf } from '../serve/listen.ts';
import type { Instance } from '../services.ts';

/** A service that follows its definitions. */
export interface DevServer extends Pick<Instance, 'resources' | 'database'> {
  readonly url: string;
  /** What a person presses: y carries out the plan that waits, any other key leaves it. */
  readonly press: (key: string) => void;
  readonly close: () => Promise<void>;
}

/** Editors save in several steps; the last one counts. */
const settleMs = 80;

const stays = 'The definitions from before are served.';

/**
 * Serves definitions that are being edited. What was saved is served once its tables are there: on the embedded database
 * what only adds is migrated by itself; a plan of anything else waits for a key. Requests are served throughout.
 * @param tell gets what a person should read
 */
export async function startDevServer(config: Config, tell: (text: string) => void): Promise<DevServer> {
  await writeAdditions(config);
  const opened = await openInstance({ ...config, serves: true });
  // Definitions differ, and statements with the same names have other texts then.
  const database = unnamed(opened.database);
  const appOf = async (resources: readonly Resource[]): Promise<FastifyInstance> => {
    const app = await buildService({ ...opened, database, resources });
    await app.ready();
    return app;
  };
  let served = textOf(await readDefinitions(config));
  const listener = createSwitchableListener(await appOf(opened.resources));
  const { server } = listener;
  await listen(
    {
      listen: (address) =>
        new Promise((resolve, reject) => server.once('error', reject).listen(address, () => resolve(''))),
    },
    config,
    '',
  ).catch(async (cause: unknown) => {
    await opened.database.close();
    throw cause;
  });

  /** The plan that waits for a key. */
  let waiting: (() => Promise<void>) | undefined;
  /** The files that were followed last: editors and git touch them several times. */
  let seen: string | undefined;

  /** Reads what was saved, and serves it, or says why not. */
  const follow = async (): Promise<void> => {
    const began = performance.now();
    const { sources, text: found } = await settledFiles(config);
    if (found === seen) return;
    seen = found;
    waiting = undefined;
    await refreshSchemas(config);
    const resources = compileResources(config, sources);
    checkModules(resources);
    const plan = await planOn(config, modelOf(resources), {}, database);
    const pending = plan.database?.pending ?? [];
    const isSame = textOf(sources) === served;
    if (isSame && pending.length === 0) return;
    if (plan.undecided.length > 0) {
      tell(`${planText(plan, undefined)}\n\n${stays}`);
      return;
    }
    const change = { resources, plan, text: textOf(sources), began };
    const changesTables = plan.statements.length > 0 || pending.length > 0;
    const isEmbedded = config.databaseAddress === undefined;
    if (!changesTables || (isEmbedded && onlyAdds(plan))) {
      await serve(change, changesTables);
      return;
    }
    waiting = () => serve({ ...change, began: performance.now() }, true);
    tell(
      `${planText(plan, undefined)}\n\n${stays} Press y to migrate and serve what was saved, any other key to leave it.`,
    );
  };

  /** Migrates, and serves definitions instead of those before. */
  const serve = async ({ resources, plan, text, began }: Change, changesTables: boolean): Promise<void> => {
    const app = await appOf(resources);
    try {
      const migrate = async () => {
        const made = plan.statements.length > 0 ? await written(config, resources, plan) : undefined;
        try {
          const applied = await applyPending(opened.database, config);
          tell(`Applied ${applied.join(', ')}.`);
        } catch (cause) {
          if (made !== undefined) for (const file of [made, made.replace(/\.ts$/, '.json')]) rmSync(file);
          throw cause;
        }
      };
      // The previous definitions still work, because the tables only gained columns.
      if (changesTables && onlyAdds(plan)) await migrate();
      await listener.swap(app, changesTables && !onlyAdds(plan) ? migrate : undefined);
    } catch (cause) {
      seen = undefined;
      await app.close();
      throw cause;
    }
    served = text;
    tell(`Serving what was saved${changesOf(plan)} (${Math.round(performance.now() - began)} ms).`);
  };

  let last: Promise<void> = Promise.resolve();
  /** Does one thing after the other. */
  const queue = (work: () => Promise<void>): void => {
    last = last.then(work).catch((cause: Error) => {
      const known = cause instanceof UserError;
      tell(`${known ? cause.message : `It failed unexpectedly: ${cause.message}`}\n${stays}`);
    });
  };
  let timer: NodeJS.Timeout | undefined;
  const onChange = (): void => {
    clearTimeout(timer);
    timer = setTimeout(queue, settleMs, follow);
  };
  const watchers: FSWatcher[] = [config.resources, config.migrations].map((folder) =>
    watch(folder, onChange),
  );

  return {
    resources: opened.resources,
    database: opened.database,
    url: urlOf({ server }, config.host),
    press: (key) => {
      const accepted = waiting;
      if (accepted === undefined) return;
      waiting = undefined;
      if (key === 'y') queue(accepted);
      else {
        seen = undefined;
        tell(`Left as it is. ${stays}`);
      }
    },
    close: async () => {
      for (const watcher of watchers) watcher.close();
      clearTimeout(timer);
      await last;
      await listener.close();
      await opened.database.close();
    },
  };
}

/** How long files may change before they are read as they are, in milliseconds. */
const unsettledMs = 10_000;

/** Reads the definitions and migration names once no file is being written. */
async function settledFiles(config: Config): Promise<Files> {
  const end = performance.now() + unsettledMs;
  for (let found = await readFiles(config); ; ) {
    await pause(settleMs / 2);
    const again = await readFiles(config);
    // Some of the files that git changes, or a file that a shell has only emptied so far, would mean something else.
    const isSettled =
      again.text === found.text &&
      again.sources.every(({ text }) => text.trim() !== '') &&
      !isGitAtWork(config.resources);
    if (isSettled || performance.now() > end) return again;
    found = again;
  }
}

interface Files {
  readonly sources: readonly Source[];
  /** All of it, to be compared. */
  readonly text: string;
}

async function readFiles(config: Config): Promise<Files> {
  const sources = await readDefinitions(config);
  return { sources, text: textOf(sources) + readdirSync(config.migrations).join() };
}

/** Whether git is changing files, which it does while its index is locked. */
const isGitAtWork = (folder: string): boolean =>
  existsSync(join(folder, '.git/index.lock')) || (dirname(folder) !== folder && isGitAtWork(dirname(folder)));

interface Change {
  readonly resources: readonly Resource[];
  readonly plan: MigrationPlan;
  readonly text: string;
  readonly began: number;
}

const textOf = (sources: readonly Source[]): string => JSON.stringify(sources);

/** The database without statements that it keeps under a name. */
const unnamed = (database: Database): Database => ({
  ...database,
  run: (statement) => database.run({ ...statement, name: '' }),
  pipelines: undefined,
  writeBatcher: undefined,
  replicas: undefined,
});

/** Whether definitions and tables from before are all still there, and mean the same. */
const onlyAdds = ({ statements, checks, api }: MigrationPlan): boolean =>
  checks.length === 0 &&
  api.every(({ kind }) => kind === 'added' || kind === 'looser') &&
  statements.every(
    ({ risks, touches }) =>
      touches !== 'rewrites' && !risks.includes('destructive') && !risks.includes('needs a restart'),
  );

/** Writes the migration of what was added while nothing was served, for the embedded database. */
async function writeAdditions(config: Config): Promise<void> {
  if (config.databaseAddress !== undefined) return;
  const resources = await loadResources(config);
  const plan = await planChanges(config, modelOf(resources), [], {}, undefined);
  if (plan.statements.length > 0 && plan.undecided.length === 0 && onlyAdds(plan))
    await written(config, resources, plan);
}

/** Writes the migration of a plan, named after its first change. @returns its file */
async function written(
  config: Config,
  resources: readonly Resource[],
  { api }: MigrationPlan,
): Promise<string | undefined> {
  const [first] = api;
  const name = first === undefined ? 'edit' : `${first.kind}_${first.name.replaceAll('.', '_')}`;
  return (await createMigration(config, modelOf(resources), name.slice(0, 60))).file;
}

const changesOf = ({ api }: MigrationPlan): string =>
  api.length === 0 ? '' : `: ${api.map(({ kind, name }) => `${kind} ${name}`).join(', ')}`;
