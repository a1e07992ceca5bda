import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Option } from '@commander-js/extra-typings';
import {
  explainStatements,
  omittedPairs,
  type Resource,
  type StatementPlan,
} from '../../engine/compile/index.ts';
import { openDatabase } from '../../engine/database/index.ts';
import { checkRequirements } from '../../engine/definition/index.ts';
import { UserError } from '../../engine/errors.ts';
import type { JsonSchema } from '../../engine/fields/index.ts';
import { apiPrefix, openApi32 } from '../../engine/http/index.ts';
import { type CommandLine, type CommandResult, formatTable, jsonResult } from '../../engine/modules/index.ts';
import {
  applyPending,
  assertMigrationsComplete,
  citusModel,
  createMigration,
  stateOf,
  withDatabase,
} from '../../engine/schema/index.ts';
import { tablesOf } from '../../engine/tables/index.ts';
import { describeLostGrant, findLostGrants } from '../../plugins/access/profiles/index.ts';
import { asyncApiDocument, type OpenApiDocument } from '../../plugins/api/explorer/index.ts';
import { assertServed, readSettingsFile } from '../../webhooks/settings/index.ts';
import { type Config, loadConfig } from '../config.ts';
import { entitiesFor, modelOf } from '../instance.ts';
import { neededFields, retiredNeed } from '../modules.ts';
import { describeInstance, divideResources, loadResources } from '../serve/build.ts';
import type { Instance, ModuleList } from '../services.ts';
import { assertEnvironment, configWarnings } from './config-command.ts';
import { refreshSchemas } from './editors.ts';
import { type IntentOptions, intentOf, intentOptions, lostGrantsTitle } from './plan-commands.ts';
import { resourceDocs } from './resource-docs.ts';

/** Adds the `migrate`, `check`, `openapi`, `asyncapi`, `docs` and `citus` commands. */
export function modelCommands({ program, run }: CommandLine<Instance>): void {
  program
    .command('migrate')
    .description('apply pending migrations, or create one for changed definitions')
    .option('--create <name>', 'create a migration for the changed definitions without applying it')
    .addOption(intentOptions.allowDrop())
    .addOption(intentOptions.using())
    .addOption(intentOptions.default())
    .option('--status', 'only show which migrations are applied, and report problems')
    .addOption(jsonResult())
    .action(({ json, ...options }) => run(json, migrateModel(options)));
  program
    .command('check')
    .description('check the resource definitions, the environment and config.yaml; needs no database')
    .option('--plans', 'also run EXPLAIN for every statement on a generated database in a temporary folder')
    .addOption(jsonResult())
    .action(({ json, plans }) => run(json, check(plans === true)));
  program
    .command('openapi')
    .description('print the OpenAPI description; needs no database')
    .addOption(
      new Option('--version <version>', 'version of OpenAPI')
        .choices(['3.1', '3.2'] as const)
        .default('3.1' as const),
    )
    .addOption(jsonResult())
    .action(({ json, version }) => run(json, openApi(version)));
  program
    .command('asyncapi')
    .description('print the AsyncAPI description of events; needs no database')
    .addOption(jsonResult())
    .action(({ json }) => run(json, asyncApi()));
  program
    .command('docs')
    .description(
      'print the resources with their fields and diagrams of their transitions as Markdown; needs no database',
    )
    .addOption(jsonResult())
    .action(({ json }) => run(json, docs()));
  program
    .command('citus')
    .description(
      'print the SQL that distributes a migrated database by organization on Citus; needs no database',
    )
    .addOption(jsonResult())
    .action(({ json }) => run(json, citus()));
}

/** Runs `check`: validates definitions, environment and settings without the instance's database. */
async function check(withPlans: boolean): Promise<CommandResult> {
  const config = await loadConfig();
  await assertEnvironment(config);
  const resources = await loadResources(config);
  checkModules(config, resources);
  await assertMigrationsComplete(config, modelOf(resources, config));
  const file = await readSettingsFile(config);
  const reasonOf = (module: string) => retiredNeed(config, resources, module);
  assertServed(file, config.environment, reasonOf);
  const { partners } = file.settings;
  const notes = configWarnings(config, file, reasonOf);
  const names = divideResources(resources).resources.map((resource) => resource.name);
  const payments = Object.keys(partners.payments);
  const result = {
    json: { ok: true, resources: names, payments, notes },
    text: `${names.length} resources are valid and fully migrated: ${names.join(', ')}\n${config.settingsFile} is valid.${notes.map((note) => `\nNote: ${note}`).join('')}`,
  };
  if (!withPlans) return result;
  const plans = await plansOf(config, resources);
  const omissions = resources.flatMap(({ name, definition }) => {
    const count = omittedPairs(definition);
    return count === 0 ? [] : [`Not explained: ${count} other pairs of the scopes of ${name}.`];
  });
  return { json: { ...result.json, plans }, text: [plansTable(plans), ...omissions, result.text].join('\n') };
}

/**
 * Runs EXPLAIN for every statement on a temporary, populated database.
 * @throws UserError if a statement in a lane with a shared connection sorts, scans a table or filters rows
 * outside its index
 */
async function plansOf(config: Config, resources: readonly Resource[]): Promise<StatementPlan[]> {
  const dataFolder = mkdtempSync(join(tmpdir(), 'crm-plans-'));
  try {
    const embedded = { ...config, databaseAddress: undefined, dataFolder: join(dataFolder, 'data') };
    const database = await openDatabase(embedded, entitiesFor(resources, config));
    try {
      await applyPending(database, embedded);
      const plans = await explainStatements(resources, database);
      const failing = plans.filter(({ problems }) => problems.length > 0);
      if (failing.length === 0) return plans;
      throw new UserError(
        `statements in the lanes "read" and "list" must use an index, but ${failing.length} do not:\n${plansTable(failing)}`,
      );
    } finally {
      await database.close();
    }
  } finally {
    rmSync(dataFolder, { recursive: true, force: true });
  }
}

const plansTable = (plans: readonly StatementPlan[]): string =>
  formatTable(
    ['lane', 'resource', 'request', 'indexes', 'problems'],
    plans.map(({ lane, resource, request, indexes, problems }) => [
      lane,
      resource,
      request,
      indexes.join(', '),
      problems.join(', '),
    ]),
  );

/**
 * Checks that every field that modules write by name exists. Otherwise, the error would only appear during a
 * request.
 * @throws UserError listing each missing field
 */
export const checkModules = (list: ModuleList, resources: readonly Resource[]): void =>
  checkRequirements(
    resources.map(({ definition }) => definition),
    neededFields(list, resources),
  );

/** Returns the instance's OpenAPI document. */
async function instanceDocument(): Promise<JsonSchema> {
  const config = await loadConfig();
  return describeInstance({ config, resources: await loadResources(config) });
}

const printDocument = (document: JsonSchema): CommandResult => ({
  json: document,
  text: JSON.stringify(document, null, 2),
});

/** Runs `openapi`: prints the OpenAPI document that GET /docs/openapi.json serves, or its conversion to OpenAPI 3.2. */
async function openApi(version: '3.1' | '3.2'): Promise<CommandResult> {
  const document = await instanceDocument();
  return printDocument(version === '3.2' ? openApi32(document, apiPrefix) : document);
}

/** Runs `asyncapi`: prints the AsyncAPI document that GET /docs/asyncapi.json serves. */
const asyncApi = async (): Promise<CommandResult> =>
  printDocument(asyncApiDocument((await instanceDocument()) as OpenApiDocument));

/** Runs `docs`: prints a description of the resources as Markdown. */
async function docs(): Promise<CommandResult> {
  const { resources } = divideResources(await loadResources(await loadConfig()));
  const markdown = resourceDocs(resources);
  return { json: { markdown }, text: markdown };
}

/** Runs `citus`: prints the statements to run once on the coordinator after `migrate`. */
async function citus(): Promise<CommandResult> {
  const config = await loadConfig();
  const { kinds, statements } = await citusModel(config, modelOf(await loadResources(config), config));
  return {
    json: { tables: Object.fromEntries(kinds), statements },
    text: statements.map((statement) => `${statement};`).join('\n'),
  };
}

interface MigrateOptions extends IntentOptions {
  readonly create?: string | undefined;
  readonly status?: true | undefined;
}

/** Runs `migrate`: applies migrations, writes one (`--create`) or shows their status (`--status`). */
async function migrateModel(options: MigrateOptions): Promise<CommandResult> {
  const config = await loadConfig();
  await assertEnvironment(config);
  const resources = await loadResources(config);
  if (options.status) return migrationStatus(config, resources);
  if (options.create === undefined) {
    await assertMigrationsComplete(config, modelOf(resources, config));
    return applyMigrations(config, resources);
  }
  checkModules(config, resources);
  const intent = intentOf(options);
  const { file, statements } = await createMigration(
    config,
    modelOf(resources, config),
    options.create,
    intent,
  );
  if (file === undefined && (intent.using?.size ?? 0) > 0)
    throw new UserError(
      'the definitions have not changed since the last migration, so there is nothing to convert. To change a migration that has not been applied, delete its .ts and .json files first.',
    );
  await refreshSchemas(config);
  const details =
    statements.length === 0
      ? 'The change affects only the API. The tables do not change.'
      : `${statements.map((statement) => `  ${statement}`).join('\n')}\nReview it, then run "npm run crm -- migrate".`;
  return {
    json: { file: file ?? null, statements },
    text:
      file === undefined
        ? 'The definitions have not changed since the last migration.'
        : `Wrote ${file}:\n${details}`,
  };
}

/** Applies all pending migrations, and reports grants that allow nothing with the definitions. */
async function applyMigrations(config: Config, resources: readonly Resource[]): Promise<CommandResult> {
  const { applied, grants } = await withDatabase(config, modelOf(resources, config), async (database) => ({
    applied: await applyPending(database, config),
    grants: await findLostGrants(tablesOf(database), resources),
  }));
  const text = applied.length === 0 ? 'All migrations are applied.' : `Applied ${applied.join(', ')}.`;
  return {
    json: { applied, lost_grants: grants },
    text: [
      text,
      ...(grants.length === 0 ? [] : [lostGrantsTitle]),
      ...grants.map((grant) => `  ${describeLostGrant(grant)}`),
    ].join('\n'),
  };
}

/** Runs `migrate --status`. Sets exit code 1 if migrations are pending or the database differs from them. */
async function migrationStatus(config: Config, resources: readonly Resource[]): Promise<CommandResult> {
  const model = modelOf(resources, config);
  const state = await withDatabase(config, model, (database) => stateOf(database, config));
  const { pending, unfinished, problems, waiting, drift } = state;
  const lines = [
    ...pending.map((name) => `pending: ${name}`),
    ...unfinished,
    ...problems,
    ...waiting,
    ...drift.map((line) => `differs from the migrations: ${line}`),
  ];
  if (lines.length > 0) process.exitCode = 1;
  return {
    json: { ...state },
    text:
      lines.length === 0 ? 'All migrations are applied, and the database matches them.' : lines.join('\n'),
  };
}
