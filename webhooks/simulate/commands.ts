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
import { type ChannelConfig, channelsOf } from '../channels/index.ts';
import { inboxQueue } from '../inbox/index.ts';
import { readSettings, type Settings, type SettingsConfig, withoutSlash } from '../settings/index.ts';
import {
  simulate as run,
  type SimulationResult,
  type SimulationTarget,
  type StepName,
  stepNames,
} from './run.ts';
import {
  type InstanceAccess,
  type IntegrationInput,
  type PreparedSimulation,
  prepareSimulation,
  simulatedProviders,
} from './simulate.ts';

type SimulateConfig = SettingsConfig & ChannelConfig & Pick<DatabaseConfig, 'databaseAddress' | 'dataFolder'>;

/** Parts of an open instance that a simulation requires. */
export interface SimulateInstance {
  readonly config: SimulateConfig;
  readonly database: Database;
  readonly resources: readonly Resource[];
  readonly secrets: InstanceSecrets;
  /** Creates the complete service on this database, without listening. */
  readonly service: () => Promise<FastifyInstance>;
}

type Line = CommandLine<SimulateInstance>;

/** Adds the `simulate` command. */
export function simulateCommands(line: Line): void {
  line.program
    .command('simulate <provider>')
    .description(
      `send test deliveries as a provider would (${simulatedProviders.join(', ')} or <customer>-payment); they create real records`,
    )
    .addOption(organizationOption())
    .option('--url <origin>', 'URL of a running instance; default: start this instance for the simulation')
    .option('--endpoint <id>', 'the integration, identified by the last segment of its URL')
    .option('--secret-stdin', 'read the secret from standard input; default: the stored one')
    .option('--steps <names>', `comma-separated steps: ${stepNames.join(',')}; default: all`)
    .option('--burst <n>', 'number of deliveries in the burst', '1000')
    .addOption(jsonResult())
    .action((provider, { json, ...options }) =>
      line.run(json, runCommand(line, line.config(), provider, options)),
    );
}

/** Options for `simulate`. */
interface SimulateOptions {
  readonly org: string;
  readonly url?: string | undefined;
  readonly endpoint?: string | undefined;
  readonly secretStdin?: true | undefined;
  readonly steps?: string | undefined;
  readonly burst: string;
}

/**
 * Maximum time to wait for another event to be processed, in milliseconds. If the database is too busy to store the
 * result of an event, the event is processed again after its lease expires.
 */
const settleMs = (inboxQueue.leaseSeconds + 30) * 1000;

/** Runs a simulation against a running instance (--url) or an instance started for the simulation. */
async function runCommand(
  { withInstance }: Line,
  config: SimulateConfig,
  provider: string,
  options: SimulateOptions,
): Promise<CommandResult> {
  const steps = stepsOf(options.steps);
  const burst = Number(options.burst);
  if (!/^\d{1,5}$/.test(options.burst) || burst < 1 || burst > 10_000) {
    throw new UserError('--burst must be between 1 and 10000');
  }
  const secret = options.secretStdin ? await firstLineOfInput() : undefined;
  if (secret?.trim() === '') throw new UserError('standard input does not contain a secret');
  const plan = { steps, burst };
  const input = { channels: channelsOf(config), org: options.org, endpoint: options.endpoint, secret };
  if (options.url !== undefined) {
    const origin = originOf(options.url);
    // The server and its embedded database could be on another machine.
    if (config.databaseAddress === undefined && !(await hasRunningOwner(config))) {
      const settings = await readSettings(config);
      const prepared = await prepareSimulation(provider, input, settings, undefined);
      const outcome = await run(prepared.script, targetOf(prepared, origin, settings), plan);
      return report(provider, outcome, undefined);
    }
    return withInstance((instance) => runAgainst(instance, provider, input, origin, plan));
  }
  return withInstance(async (instance) => {
    if (instance.database.isServed)
      throw new UserError('A server is using the embedded database. Pass its URL with --url.');
    const app = await instance.service();
    try {
      await app.listen({ host: '127.0.0.1', port: 0 });
      const { port } = app.server.address() as AddressInfo;
      return await runAgainst(instance, provider, input, `http://127.0.0.1:${port}`, plan);
    } finally {
      await app.close();
    }
  });
}

/** Returns the target. Deliveries are sent to `origin` but signed for the public origin. */
function targetOf(
  { path, secret }: PreparedSimulation,
  origin: string,
  { public_url }: Settings,
): SimulationTarget {
  const publicUrl = `${withoutSlash(public_url) || origin}${path}`;
  return { url: origin + path, publicUrl, secret };
}

async function runAgainst(
  { config, database, resources, secrets }: SimulateInstance,
  provider: string,
  input: IntegrationInput,
  origin: string,
  plan: { steps: readonly StepName[]; burst: number },
): Promise<CommandResult> {
  const settings = await readSettings(config);
  const access: InstanceAccess = {
    database,
    tables: tablesOf(database),
    resources,
    sealed: sealing(secrets),
  };
  const prepared = await prepareSimulation(provider, input, settings, access);
  const outcome = await run(prepared.script, targetOf(prepared, origin, settings), plan);
  let storedCounts = await prepared.countStored(access, outcome.eventIds);
  let progress = performance.now();
  while ((storedCounts.waiting ?? 0) > 0 && performance.now() - progress < settleMs) {
    await pause(100);
    const previous = storedCounts.waiting;
    storedCounts = await prepared.countStored(access, outcome.eventIds);
    if (storedCounts.waiting !== previous) progress = performance.now();
  }
  return report(provider, outcome, storedCounts);
}

function report(
  provider: string,
  { results, eventIds }: SimulationResult,
  storedCounts: Readonly<Record<string, number>> | undefined,
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
    storedCounts === undefined
      ? "That server's database is not available here. Open Setup, Deliveries to see the stored events."
      : `Sent ${eventIds.length} unique events. Stored: ${counts(storedCounts)}.`;
  return {
    json: { provider, steps: results, events: eventIds.length, arrived: storedCounts ?? null },
    text: `${formatTable(['step', 'sent', 'responses', 'p50 ms', 'p99 ms'], rows)}\n${summary}`,
  };
}

function stepsOf(text: string | undefined): readonly StepName[] {
  if (text === undefined) return stepNames;
  const names = text.split(',');
  const unknown = names.filter((name) => !stepNames.some((step) => step === name));
  if (unknown.length > 0) {
    throw new UserError(`Unknown step "${unknown.join(', ')}". Available: ${stepNames.join(', ')}.`);
  }
  return stepNames.filter((step) => names.includes(step));
}

function originOf(text: string): string {
  if (!URL.canParse(text) || !/^https?:$/.test(new URL(text).protocol)) {
    throw new UserError(`"${text}" is not a valid URL. Example: https://crm.example`);
  }
  return new URL(text).origin;
}
