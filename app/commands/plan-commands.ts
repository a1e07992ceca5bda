import { existsSync } from 'node:fs';
import { Option } from '@commander-js/extra-typings';
import type { Database } from '../../engine/database/index.ts';
import { UserError } from '../../engine/errors.ts';
import { type CommandLine, type CommandResult, jsonResult } from '../../engine/modules/index.ts';
import { countMs, type Intent, type Model, planChanges, withDatabase } from '../../engine/schema/index.ts';
import { literal } from '../../engine/sql/index.ts';
import { tablesOf } from '../../engine/tables/index.ts';
import { findUsage } from '../../plugins/api/usage/index.ts';
import { type Config, readConfig } from '../config.ts';
import { modelOf } from '../instance.ts';
import { modules } from '../modules.ts';
import { loadResources } from '../serve/build.ts';
import type { Instance } from '../services.ts';
import { type PlanWithKeys, planMarkdown, planText } from './plan-text.ts';

/** Parsed values of `--allow-drop`, `--using` and `--default`. */
export interface IntentOptions {
  readonly allowDrop?: string[] | undefined;
  readonly using?: string[] | undefined;
  readonly default?: string[] | undefined;
}

const collect = (value: string, previous: string[] | undefined): string[] => [...(previous ?? []), value];

/** Options for changes that could lose values. */
export const intentOptions = {
  allowDrop: () =>
    new Option(
      '--allow-drop <names...>',
      'allow dropping these fields or resources with their values, for example leads.fax',
    ),
  using: () =>
    new Option(
      '--using <field=sql>',
      'SQL text expression that converts values that do not fit; repeatable',
    ).argParser(collect),
  default: () =>
    new Option('--default <field=value>', 'replacement for values that do not fit; repeatable').argParser(
      collect,
    ),
};

/**
 * Converts command-line options to a migration intent.
 * @throws UserError if an option does not have the form field=value
 */
export function intentOf({ allowDrop = [], using = [], default: defaults = [] }: IntentOptions): Intent {
  const pairs = (values: readonly string[], option: string, sqlOf: (text: string) => string) =>
    values.map((text): [string, string] => {
      const separator = text.indexOf('=');
      if (separator < 1)
        throw new UserError(`${option} needs a field and a value, for example leads.score=0`);
      return [text.slice(0, separator), sqlOf(text.slice(separator + 1))];
    });
  return {
    drop: allowDrop,
    using: new Map([...pairs(using, '--using', (sql) => sql), ...pairs(defaults, '--default', literal)]),
  };
}

interface PlanOptions extends IntentOptions {
  readonly check?: true | undefined;
  readonly markdown?: true | undefined;
  readonly offline?: true | undefined;
}

/** Adds the `plan` command. */
export function planCommands({ program, run }: CommandLine<Instance>): void {
  program
    .command('plan')
    .description('show what changes to the definitions will do, without writing anything')
    .addOption(intentOptions.allowDrop())
    .addOption(intentOptions.using())
    .addOption(intentOptions.default())
    .option(
      '--check',
      'exit with status 1 if a change to the tables or a breaking API change has no migration, or the database has drifted',
    )
    .option('--markdown', 'print Markdown, for example for a pull request')
    .option('--offline', 'do not connect to the database')
    .addOption(jsonResult())
    .action(({ json, ...options }) => run(json, plan(options)));
}

async function plan(options: PlanOptions): Promise<CommandResult> {
  const config = readConfig();
  const { migrationPlan, notCounted } = await createPlan(config, options);
  const { statements, api, database } = migrationPlan;
  const isClean =
    statements.length === 0 && !api.some(({ breaks }) => breaks) && (database?.drift.length ?? 0) === 0;
  if (options.check && !isClean) process.exitCode = 1;
  return {
    json: { ...migrationPlan, notCounted: notCounted ?? null, clean: isClean },
    text: options.markdown ? planMarkdown(migrationPlan) : planText(migrationPlan, notCounted),
  };
}

const needsOfModules = modules.flatMap((module) => module.needs ?? []);

/** Plans the migration to the current definitions, with row counts and the API keys that used removed names. */
export async function planOn(
  config: Config,
  model: Model,
  intent: Intent,
  database: Database,
): Promise<PlanWithKeys> {
  const migrationPlan = await planChanges(config, model, needsOfModules, intent, database);
  const lostNames = migrationPlan.api.flatMap(({ loses }) => loses ?? []);
  return { ...migrationPlan, keys: await findUsage(tablesOf(database), lostNames) };
}

/** Returns the plan and, if rows are not counted, the reason. */
async function createPlan(
  config: Config,
  options: PlanOptions,
): Promise<{ readonly migrationPlan: PlanWithKeys; readonly notCounted: string | undefined }> {
  const model = modelOf(await loadResources(config));
  const intent = intentOf(options);
  const offline = async (notCounted: string) => ({
    migrationPlan: { ...(await planChanges(config, model, needsOfModules, intent, undefined)), keys: [] },
    notCounted,
  });
  if (options.offline) return offline('--offline');
  if (config.databaseAddress === undefined && !existsSync(config.dataFolder)) {
    return offline('the database does not exist yet');
  }
  let isOpen = false;
  try {
    const planWithCounts = async (database: Database) => {
      isOpen = true;
      return { migrationPlan: await planOn(config, model, intent, database), notCounted: undefined };
    };
    return await withDatabase(config, model, planWithCounts, countMs);
  } catch (cause) {
    if (isOpen || !(cause instanceof UserError)) throw cause;
    return offline(cause.message);
  }
}
