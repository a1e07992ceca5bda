import { existsSync, statSync } from 'node:fs';
import { join } from 'node:path';
import type { Environment } from '../../engine/config/index.ts';
import {
  type Database,
  isFolderLocked,
  openDatabase,
  sqlState,
  TimeoutError,
  tooManyConnections,
  withTimeout,
} from '../../engine/database/index.ts';
import { pluralize, UserError } from '../../engine/errors.ts';
import {
  type CommandLine,
  type CommandResult,
  type DoctorCheck,
  type DoctorSubject,
  type Finding,
  jsonResult,
} from '../../engine/modules/index.ts';
import { assertMigrationsComplete } from '../../engine/schema/index.ts';
import { YamlError } from '../../engine/yaml/index.ts';
import { instanceSecrets, secretFile } from '../../plugins/access/secrets/index.ts';
import { assertServed, readSettingsFile } from '../../webhooks/settings/index.ts';
import { type Config, loadConfig } from '../config.ts';
import { entitiesFor, modelOf } from '../instance.ts';
import { modules, retiredNeed } from '../modules.ts';
import { loadResources } from '../serve/build.ts';
import type { DoctorTarget, Instance } from '../services.ts';
import { checksOf } from './checks.ts';
import { checkModules } from './model-commands.ts';

/** The result of `crm doctor`. */
interface DoctorReport {
  readonly findings: readonly (Finding & { readonly check: string })[];
  readonly skipped: readonly { readonly check: string; readonly reason: string }[];
  /** Number of completed checks. */
  readonly checkCount: number;
}

/** State of a `crm doctor` run. */
interface Examination {
  readonly findings: (Finding & { readonly check: string })[];
  readonly skipped: { readonly check: string; readonly reason: string }[];
  checkCount: number;
  /** Parts of the instance that could be loaded. */
  readonly parts: { -readonly [Part in keyof DoctorTarget]?: DoctorTarget[Part] };
  /** Reasons why parts could not be loaded, keyed by part. */
  readonly missing: Map<DoctorSubject, string>;
}

/** Timeout for each check and for opening the database, in milliseconds. */
const timeoutMs = 10_000;

const timeoutMessage = (ms: number): string => `no response within ${ms / 1000} s`;

/** Examines an instance without changing it. Every step has a timeout. */
async function runDoctor(environment: Environment = process.env): Promise<DoctorReport> {
  const examination: Examination = {
    findings: [],
    skipped: [],
    checkCount: 0,
    parts: {},
    missing: new Map(),
  };
  await loadPart(
    examination,
    'config',
    'the environment',
    'See "Environment variables" in docs/administrators.md.',
    () => loadConfig(environment),
  );
  const { config } = examination.parts;
  if (config !== undefined) await loadFiles(examination, config);
  const checks = checksOf(config ?? { modules });
  const needsDatabase = ({ needs }: DoctorCheck<DoctorTarget>) =>
    needs.includes('database') || needs.includes('secrets');
  // Checks without a database run first, because an open embedded database locks its folder for other processes.
  for (const check of checks.filter((check) => !needsDatabase(check))) await runCheck(examination, check);
  if (config !== undefined) await loadDatabase(examination, config);
  const { database } = examination.parts;
  try {
    for (const check of checks.filter(needsDatabase)) await runCheck(examination, check);
  } finally {
    await database?.close();
  }
  return examination;
}

/** Loads a part of the instance, or records why it is not available. */
async function loadPart<Part extends DoctorSubject>(
  examination: Examination,
  part: Part,
  label: string,
  advice: string,
  load: () => Promise<DoctorTarget[Part]>,
): Promise<void> {
  examination.checkCount++;
  const check = label.replace('the ', '');
  try {
    Object.assign(examination.parts, { [part]: await withTimeout(timeoutMs, load(), timeoutMessage) });
  } catch (cause) {
    examination.missing.set(part, `${label} cannot be used`);
    // The error message already explains what to do.
    const isFull = sqlState((cause as Error).cause) === tooManyConnections;
    for (const issue of issuesOf(cause, check))
      examination.findings.push({
        check,
        ...issue,
        advice: isFull ? 'Then run "crm doctor" again.' : advice,
      });
  }
}

/** Loads config.yaml and the definitions. */
async function loadFiles(examination: Examination, config: Config): Promise<void> {
  const { parts } = examination;
  const settingsAdvice = 'Correct the line. A running server keeps its previous settings.';
  await loadPart(examination, 'settingsFile', 'config.yaml', settingsAdvice, () => readSettingsFile(config));
  if (parts.settingsFile === undefined) examination.missing.set('settings', 'config.yaml cannot be used');
  else parts.settings = parts.settingsFile.settings;
  const advice = 'Correct it, and run "crm check" to validate all definitions.';
  await loadPart(examination, 'resources', 'the definitions', advice, async () => {
    const resources = await loadResources(config);
    checkModules(config, resources);
    if (parts.settingsFile !== undefined)
      assertServed(parts.settingsFile, config.environment, (module) =>
        retiredNeed(config, resources, module),
      );
    await assertMigrationsComplete(config, modelOf(resources, config));
    return resources;
  });
}

/** Opens the database and loads the secrets. */
async function loadDatabase(examination: Examination, config: Config): Promise<void> {
  const { parts, missing } = examination;
  const reason = reasonNotToOpen(config);
  if (reason !== undefined) missing.set('database', reason);
  else {
    const advice = 'Check that the server is running and that DATABASE_URL or DATA_DIR is correct.';
    const opening = open(config, examination);
    // The lock might belong to a server that is still starting.
    if (await opening.then(() => false, isFolderLocked))
      missing.set(
        'database',
        `another process is using ${config.dataFolder} but does not respond to requests. Stop it first.`,
      );
    else await loadPart(examination, 'database', 'the database', advice, () => opening);
  }
  if (config.authSecrets.length === 0 && !existsSync(secretFile(config.dataFolder))) {
    missing.set('secrets', 'the instance does not have a secret yet');
    return;
  }
  try {
    parts.secrets = instanceSecrets(config);
  } catch {
    // The secrets check reports the reason.
    missing.set('secrets', 'the instance’s secret cannot be used');
  }
}

/** Returns the reason the embedded database must not be opened, or undefined if it can be opened. */
function reasonNotToOpen({ databaseAddress, dataFolder }: Config): string | undefined {
  if (databaseAddress !== undefined) return undefined;
  const cluster = join(dataFolder, 'pgdata', 'PG_VERSION');
  if (!existsSync(cluster))
    return `${dataFolder} does not contain a database yet; the first start creates it`;
  // A server run by the folder's owner could not open files that this command creates.
  const isForeign = process.getuid !== undefined && statSync(cluster).uid !== process.getuid();
  return isForeign ? `${dataFolder} belongs to another user. Run the command as that user.` : undefined;
}

/** Opens the database for a few queries. */
async function open(config: Config, { parts: { resources = [] } }: Examination): Promise<Database> {
  const limits = {
    connectTimeoutMs: Math.min(config.connectTimeoutMs, timeoutMs / 2),
    statementTimeoutMs: Math.min(config.statementTimeoutMs, timeoutMs / 2),
  };
  const opening = openDatabase({ ...config, ...limits }, entitiesFor(resources, config));
  try {
    return await withTimeout(timeoutMs, opening, timeoutMessage);
  } catch (cause) {
    // A connection that opens after the timeout would keep this process running.
    opening.then(
      (database) => database.close(),
      () => {},
    );
    throw cause;
  }
}

/** SQLSTATEs for a missing table or column. */
const missingSchemaStates = ['42P01', '42703'];

/** Runs a check, or skips it if a required part is not available. */
async function runCheck(
  examination: Examination,
  { name, needs, run }: DoctorCheck<DoctorTarget>,
): Promise<void> {
  const { parts, missing, findings, skipped } = examination;
  const missingPart = needs.find((part) => parts[part] === undefined);
  if (missingPart !== undefined) {
    skipped.push({ check: name, reason: missing.get(missingPart) ?? 'the environment cannot be used' });
    return;
  }
  examination.checkCount++;
  // Pass only the parts that the check declares.
  const subject = Object.fromEntries(needs.map((part) => [part, parts[part]])) as unknown as DoctorTarget;
  try {
    const results = await withTimeout(timeoutMs, Promise.resolve(run(subject)), timeoutMessage);
    findings.push(...results.map((finding) => ({ check: name, ...finding })));
  } catch (cause) {
    if (missingSchemaStates.includes(sqlState(cause) ?? '')) {
      skipped.push({ check: name, reason: 'the database has pending migrations' });
      return;
    }
    const advice = 'Run "crm doctor" again, and check the server’s log.';
    findings.push({ check: name, location: name, message: `no result: ${firstLine(cause)}`, advice });
    // Further checks would also time out.
    if (!needs.includes('database') || !(cause instanceof TimeoutError)) return;
    missing.set('database', 'the database does not respond in time');
    delete parts.database;
  }
}

/** Splits an error into issues with their locations. */
function issuesOf(cause: unknown, label: string): readonly Pick<Finding, 'location' | 'message'>[] {
  if (cause instanceof YamlError) {
    return cause.issues.map(({ file, line, column, message }) => ({
      location: `${file}:${line}:${column}`,
      message,
    }));
  }
  if (!(cause instanceof UserError)) return [{ location: label, message: firstLine(cause) }];
  return cause.message.split('\n').map((message) => ({ location: label, message }));
}

const firstLine = (cause: unknown): string => (cause as Error).message.split('\n')[0] ?? '';

/** Adds the `doctor` command. */
export function doctorCommand({ program, run }: CommandLine<Instance>): void {
  program
    .command('doctor')
    .description('find problems with this instance and suggest fixes')
    .addOption(jsonResult())
    .action(({ json }) => run(json, doctor()));
}

/** Runs the checks. Sets exit code 1 if they find a problem. */
async function doctor(): Promise<CommandResult> {
  const report = await runDoctor();
  const { findings, skipped, checkCount } = report;
  const notes = findings.filter(({ isNote }) => isNote === true);
  const problems = findings.filter(({ isNote }) => isNote !== true);
  if (problems.length > 0) process.exitCode = 1;
  const jsonOf = ({ check, location, message, advice }: DoctorReport['findings'][number]) => ({
    check,
    place: location,
    problem: message,
    advice,
  });
  const reasons = new Map<string, string[]>();
  for (const { check, reason } of skipped) reasons.set(reason, [...(reasons.get(reason) ?? []), check]);
  return {
    json: {
      ok: problems.length === 0,
      wrong: problems.map(jsonOf),
      notes: notes.map(jsonOf),
      skipped,
      checks: checkCount,
    },
    text: [
      ...problems.map((finding) => formatFinding('wrong', finding)),
      ...notes.map((finding) => formatFinding('note', finding)),
      ...[...reasons].map(([reason, names]) => `skipped  ${names.join(', ')}\n         ${reason}`),
      `${problems.length === 0 ? 'No problems found' : pluralize(problems.length, 'problem')}: ${checkCount} checks, ${pluralize(notes.length, 'note')}, ${skipped.length} skipped.`,
    ].join('\n'),
  };
}

/** Formats a finding as two lines. */
const formatFinding = (kind: string, { location, message, advice }: Finding): string =>
  `${kind.padEnd(9)}${location}: ${message}\n         ${advice}`;
