import { existsSync, statSync } from 'node:fs';
import { join } from 'node:path';
import type { Environment } from '../../engine/config/index.ts';
import {
  type Database,
  isFolderLocked,
  openDatabase,
  sqlState,
  TimeoutError,
  withTimeout,
} from '../../engine/database/index.ts';
import { UserError } from '../../engine/errors.ts';
import type { DoctorCheck, DoctorSubject, Finding } from '../../engine/modules/index.ts';
import { assertMigrationsComplete } from '../../engine/schema/index.ts';
import { YamlError } from '../../engine/yaml/index.ts';
import { instanceSecrets, secretFile } from '../../plugins/access/secrets/index.ts';
import { readSettingsFile } from '../../webhooks/settings/index.ts';
import { type Config, readConfig } from '../config.ts';
import { entitiesFor, modelOf } from '../instance.ts';
import { loadResources } from '../serve/build.ts';
import type { DoctorTarget } from '../services.ts';
import { checks } from './checks.ts';
import { checkModules } from './model-commands.ts';

/** The findings of `crm doctor` and the skipped checks. */
export interface DoctorReport {
  readonly findings: readonly (Finding & { readonly check: string })[];
  readonly skipped: readonly { readonly check: string; readonly reason: string }[];
  /** How many checks were made. */
  readonly made: number;
}

/** State of a running examination. */
interface Visit {
  readonly findings: (Finding & { readonly check: string })[];
  readonly skipped: { readonly check: string; readonly reason: string }[];
  made: number;
  /** Available parts of the instance. */
  readonly parts: { -readonly [Part in keyof DoctorTarget]?: DoctorTarget[Part] };
  /** Reasons why other parts are not available. */
  readonly missing: Map<DoctorSubject, string>;
}

/** Timeout of a check and of opening the database, in milliseconds. */
const limitMs = 10_000;

/** SQLSTATE of a server, database or role without free connections; the error says what to do. */
const tooManyConnections = '53300';

const late = (ms: number): string => `no response within ${ms / 1000} s`;

/** Examines an instance without changing it. Every step has a timeout. */
export async function runDoctor(environment: Environment = process.env): Promise<DoctorReport> {
  const visit: Visit = { findings: [], skipped: [], made: 0, parts: {}, missing: new Map() };
  await have(
    visit,
    'config',
    'the environment',
    'See "Environment variables" in docs/administrators.md.',
    async () => readConfig(environment),
  );
  const { config } = visit.parts;
  if (config !== undefined) await haveFiles(visit, config);
  const ofDatabase = ({ needs }: DoctorCheck<DoctorTarget>) =>
    needs.includes('database') || needs.includes('secrets');
  // First, because opening the embedded database closes its folder to others.
  for (const check of checks.filter((each) => !ofDatabase(each))) await look(visit, check);
  if (config !== undefined) await haveDatabase(visit, config);
  const { database } = visit.parts;
  try {
    for (const check of checks.filter(ofDatabase)) await look(visit, check);
  } finally {
    await database?.close();
  }
  return visit;
}

/** Loads a part of the instance, or records why it is not available. */
async function have<Part extends DoctorSubject>(
  visit: Visit,
  part: Part,
  what: string,
  advice: string,
  load: () => Promise<DoctorTarget[Part]>,
): Promise<void> {
  visit.made++;
  const check = what.replace('the ', '');
  try {
    Object.assign(visit.parts, { [part]: await withTimeout(limitMs, load(), late) });
  } catch (cause) {
    visit.missing.set(part, `${what} cannot be used`);
    const isFull = sqlState((cause as Error).cause) === tooManyConnections;
    for (const mistake of mistakes(cause, check))
      visit.findings.push({ check, ...mistake, advice: isFull ? 'Then run "crm doctor" again.' : advice });
  }
}

/** Loads config.yaml and the definitions. */
async function haveFiles(visit: Visit, config: Config): Promise<void> {
  const { parts } = visit;
  const correct = 'Correct the line. A running server keeps its previous settings.';
  await have(visit, 'settingsFile', 'config.yaml', correct, () => readSettingsFile(config));
  if (parts.settingsFile === undefined) visit.missing.set('settings', 'config.yaml cannot be used');
  else parts.settings = parts.settingsFile.settings;
  const advice = 'Correct it, and run "crm check" to validate all definitions.';
  await have(visit, 'resources', 'the definitions', advice, async () => {
    const resources = await loadResources(config);
    checkModules(resources);
    await assertMigrationsComplete(config, modelOf(resources));
    return resources;
  });
}

/** Opens the database and loads the secrets. */
async function haveDatabase(visit: Visit, config: Config): Promise<void> {
  const { parts, missing } = visit;
  const reason = whyLeftAlone(config);
  if (reason !== undefined) missing.set('database', reason);
  else {
    const advice = 'Check that the server is running and that DATABASE_URL or DATA_DIR is correct.';
    const opening = open(config, visit);
    // As a server that is starting.
    if (await opening.then(() => false, isFolderLocked))
      missing.set(
        'database',
        `another process is using ${config.dataFolder} and does not respond as a server. Stop it first.`,
      );
    else await have(visit, 'database', 'the database', advice, () => opening);
  }
  if (config.authSecrets.length === 0 && !existsSync(secretFile(config.dataFolder))) {
    missing.set('secrets', 'the instance does not have a secret yet');
    return;
  }
  try {
    parts.secrets = instanceSecrets(config);
  } catch {
    // The check of secrets says why.
    missing.set('secrets', 'the instance’s secret cannot be used');
  }
}

/** Returns why the embedded database must not be opened, or undefined. */
function whyLeftAlone({ databaseAddress, dataFolder }: Config): string | undefined {
  if (databaseAddress !== undefined) return undefined;
  const cluster = join(dataFolder, 'pgdata', 'PG_VERSION');
  if (!existsSync(cluster))
    return `${dataFolder} does not contain a database yet; the first start creates it`;
  // The server could not open what another user leaves there.
  const isOthers = process.getuid !== undefined && statSync(cluster).uid !== process.getuid();
  return isOthers ? `${dataFolder} belongs to another user. Run the command as that user.` : undefined;
}

/** Opens the database for a few queries. */
async function open(config: Config, { parts: { resources = [] } }: Visit): Promise<Database> {
  const limits = {
    connectTimeoutMs: Math.min(config.connectTimeoutMs, limitMs / 2),
    statementTimeoutMs: Math.min(config.statementTimeoutMs, limitMs / 2),
  };
  const opening = openDatabase({ ...config, ...limits }, entitiesFor(resources));
  try {
    return await withTimeout(limitMs, opening, late);
  } catch (cause) {
    // A connection that opens late would keep this process running.
    opening.then(
      (database) => database.close(),
      () => {},
    );
    throw cause;
  }
}

/** SQLSTATEs for a missing table or column. */
const notMigrated = ['42P01', '42703'];

/** Runs a check, or skips it if a required part is not available. */
async function look(visit: Visit, { name, needs, run }: DoctorCheck<DoctorTarget>): Promise<void> {
  const { parts, missing, findings, skipped } = visit;
  const lacking = needs.find((part) => parts[part] === undefined);
  if (lacking !== undefined) {
    skipped.push({ check: name, reason: missing.get(lacking) ?? 'the environment cannot be used' });
    return;
  }
  visit.made++;
  // Pass only the parts that the check declares.
  const subject = Object.fromEntries(needs.map((part) => [part, parts[part]])) as unknown as DoctorTarget;
  try {
    const found = await withTimeout(limitMs, Promise.resolve(run(subject)), late);
    findings.push(...found.map((finding) => ({ check: name, ...finding })));
  } catch (cause) {
    if (notMigrated.includes(sqlState(cause) ?? '')) {
      skipped.push({ check: name, reason: 'the database has pending migrations' });
      return;
    }
    const advice = 'Run "crm doctor" again, and check the server’s log.';
    findings.push({ check: name, place: name, problem: `no result: ${firstLine(cause)}`, advice });
    // Further checks would also time out.
    if (!needs.includes('database') || !(cause instanceof TimeoutError)) return;
    missing.set('database', 'the database does not respond in time');
    delete parts.database;
  }
}

/** Splits an error into issues with their locations. */
function mistakes(cause: unknown, what: string): readonly Pick<Finding, 'place' | 'problem'>[] {
  if (cause instanceof YamlError) {
    return cause.problems.map(({ file, line, column, message }) => ({
      place: `${file}:${line}:${column}`,
      problem: message,
    }));
  }
  if (!(cause instanceof UserError)) return [{ place: what, problem: firstLine(cause) }];
  return cause.message.split('\n').map((problem) => ({ place: what, problem }));
}

const firstLine = (cause: unknown): string => (cause as Error).message.split('\n')[0] ?? '';
