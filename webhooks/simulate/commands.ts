import type { AddressInfo } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';
import type { FastifyInstance } from 'fastify';
import type { Resource } from '../../engine/compile/index.ts';
import { type Database, type DatabaseConfig, hasRunningOwner } from '../../engine/database/index.ts';
import { UserError } from '../../engine/errors.ts';
import {
  type CommandLine,
  type CommandResult,
  firstLineOfInput,
  formatTable,
  jsonResult,
  organizationOption,
} from '../../engine/modules/index.ts';
import { tablesOf } from '../../engine/tables/index.ts';
import { type InstanceSecrets, sealing } from '../../plugins/access/secrets/index.ts';
import { readSettings, type Settings, type SettingsConfig, withoutSlash } from '../settings/index.ts';
import { simulate as run, type SimulationResult, type StepName, stepNames, type Target } from './run.ts';
import { type InstanceAccess, type PreparedSimulation, prepareSimulation, simulated } from './simulate.ts';

type SimulateConfig = SettingsConfig & Pick<DatabaseConfig, 'databaseAddress' | 'dataFolder'>;

/** The parts of an open instance that a simulation needs. */
export interface SimulateInstance {
  readonly config: SimulateConfig;
  readonly database: Database;
  readonly resources: readonly Resource[];
  readonly secrets: InstanceSecrets;
  /** The whole service on this database, not listening yet. */
  readonly service: () => Promise<FastifyInstance>;
}

type Line = CommandLine<SimulateInstance>;

/** `simulate`. */
export function simulateCommands(line: Line): void {
  line.program
    .command('simulate <provider>')
    .description(
      `simulate a provider: ${simulated.join(', ')}, or <customer>-payment; what it sends is stored`,
    )
    .addOption(organizationOption())
    .option('--url <origin>', 'a running instance; default: start this one for the simulation')
    .option('--endpoint <id>', 'the integration, by the last part of its address')
    .option('--secret-stdin', 'read the secret from standard input; default: the stored one')
    .option('--steps <names>', `any of ${stepNames.join(',')}; default: all`)
    .option('--burst <n>', 'the number of deliveries in the burst', '1000')
    .addOption(jsonResult())
    .action((provider, { json, ...options }) => line.run(json, play(line, line.config(), provider, options)));
}

/** The options of `simulate`. */
interface SimulateOptions {
  readonly org: string;
  readonly url?: string | undefined;
  readonly endpoint?: string | undefined;
  readonly secretStdin?: true | undefined;
  readonly steps?: string | undefined;
  readonly burst: string;
}

/** How long to wait for the processing of a further event, in milliseconds. */
const settleMs = 30_000;

/** Runs against a running instance (--url), or against one that is started for this. */
async function play(
  { withInstance }: Line,
  config: SimulateConfig,
  provider: string,
  options: SimulateOptions,
): Promise<CommandResult> {
  const steps = stepsOf(options.steps);
  const burst = Number(options.burst);
  if (!/^\d{1,5}$/.test(options.burst) || burst < 1 || burst > 10_000) {
    throw new UserError('--burst must be from 1 to 10000');
  }
  const secret = options.secretStdin ? await firstLineOfInput() : undefined;
  if (secret?.trim() === '') throw new UserError('standard input holds no secret');
  const plan = { steps, burst };
  const given = { org: options.org, endpoint: options.endpoint, secret };
  if (options.url !== undefined) {
    const origin = originOf(options.url);
    // The server may be on another machine, and its embedded database with it.
    if (config.databaseAddress === undefined && !(await hasRunningOwner(config))) {
      const settings = await readSettings(config);
      const prepared = await prepareSimulation(provider, given, settings, undefined);
      const outcome = await run(prepared.script, targetOf(prepared, origin, settings), plan);
      return report(provider, outcome, undefined);
    }
    return withInstance((instance) => against(instance, provider, given, origin, plan));
  }
  return withInstance(async (instance) => {
    if (instance.database.isServed)
      throw new UserError('a server has the embedded database: give its address (--url)');
    const app = await instance.service();
    try {
      await app.listen({ host: '127.0.0.1', port: 0 });
      const { port } = app.server.address() as AddressInfo;
      return await against(instance, provider, given, `http://127.0.0.1:${port}`, plan);
    } finally {
      await app.close();
    }
  });
}

/** Deliveries go to the called origin, signed for the one that providers know. */
function targetOf({ path, secret }: PreparedSimulation, origin: string, { public_url }: Settings): Target {
  const publicUrl = `${withoutSlash(public_url) || origin}${path}`;
  return { url: origin + path, publicUrl, secret };
}

async function against(
  { config, database, resources, secrets }: SimulateInstance,
  provider: string,
  given: { org: string; endpoint?: string | undefined; secret?: string | undefined },
  origin: string,
  plan: { steps: readonly StepName[]; burst: number },
): Promise<CommandResult> {
  const settings = await readSettings(config);
  const inside: InstanceAccess = { tables: tablesOf(database), resources, sealed: sealing(secrets) };
  const prepared = await prepareSimulation(provider, given, settings, inside);
  const outcome = await run(prepared.script, targetOf(prepared, origin, settings), plan);
  let arrived = await prepared.arrived(inside, outcome.eventIds);
  let progress = performance.now();
  while ((arrived.waiting ?? 0) > 0 && performance.now() - progress < settleMs) {
    await pause(100);
    const before = arrived.waiting;
    arrived = await prepared.arrived(inside, outcome.eventIds);
    if (arrived.waiting !== before) progress = performance.now();
  }
  return report(provider, outcome, arrived);
}

function report(
  provider: string,
  { results, eventIds }: SimulationResult,
  arrived: Readonly<Record<string, number>> | undefined,
): CommandResult {
  const counts = (of: Readonly<Record<string, number>>) =>
    Object.entries(of)
      .map(([name, count]) => `${count} × ${name}`)
      .join(', ') || 'none';
  const rows = results.map(({ step, sent, answers, p50_ms, p99_ms }) => [
    step,
    String(sent),
    counts(answers),
    String(p50_ms),
    String(p99_ms),
  ]);
  const summary =
    arrived === undefined
      ? 'What arrived is shown under Setup, Deliveries: the database of that server is not here.'
      : `Of ${eventIds.length} different events arrived: ${counts(arrived)}.`;
  return {
    json: { provider, steps: results, events: eventIds.length, arrived: arrived ?? null },
    text: `${formatTable(['step', 'sent', 'answers', 'p50 ms', 'p99 ms'], rows)}\n${summary}`,
  };
}

function stepsOf(text: string | undefined): readonly StepName[] {
  if (text === undefined) return stepNames;
  const wanted = text.split(',');
  const unknown = wanted.filter((name) => !stepNames.some((step) => step === name));
  if (unknown.length > 0) {
    throw new UserError(`"${unknown.join(', ')}" is no step; there are ${stepNames.join(', ')}`);
  }
  return stepNames.filter((step) => wanted.includes(step));
}

function originOf(text: string): string {
  if (!URL.canParse(text) || !/^https?:$/.test(new URL(text).protocol)) {
    throw new UserError(`"${text}" is no address such as https://crm.example`);
  }
  return new URL(text).origin;
}
