import type { AddressInfo } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';
import { type InboxItem, listInbox, replay, showInbox, states } from '../../webhooks/inbox/inbox.ts';
import { readSettings, type Settings, withoutSlash } from '../../webhooks/settings/index.ts';
import {
  type Inside,
  type Outcome,
  type Play,
  prepare,
  simulate as run,
  type StepName,
  stepNames,
  type Target,
} from '../../webhooks/simulate/index.ts';
import { partnerStatus } from '../../webhooks/status.ts';
import { build } from '../app.ts';
import { readConfig } from '../config.ts';
import { UserError } from '../errors.ts';
import { isRowId } from '../fields/index.ts';
import { commandLine, organizationId, platform, sealing, transaction } from '../platform/index.ts';
import { firstLineOfInput, type Instance, type Result, table, withInstance } from './context.ts';

/** `partners`. */
export const partners = (): Promise<Result> =>
  withInstance(async ({ config, database }) => {
    const endpoints = await partnerStatus(platform(database), await readSettings(config));
    const rows = endpoints.map(({ name, path, state, problem, secrets }) => [
      name,
      path,
      state === 'off' ? 'off (501)' : state,
      secrets.map(({ place, last_used_at }) => `no. ${place}: ${last_used_at ?? 'never'}`).join(', '),
      problem,
    ]);
    return {
      json: { partners: endpoints },
      text: table(['endpoint', 'path', 'state', 'secrets, last used', 'problem'], rows),
    };
  });

/** `inbox list`. */
export const inboxList = (options: {
  org: string;
  status?: string | undefined;
  limit: string;
}): Promise<Result> =>
  withInstance(async ({ database }) => {
    const { status } = options;
    if (status !== undefined && !states.includes(status)) {
      throw new UserError(`"${status}" is no state; there are ${states.join(', ')}`);
    }
    const limit = Number(options.limit);
    if (!/^\d{1,4}$/.test(options.limit) || limit < 1 || limit > 1000) {
      throw new UserError('--limit must be from 1 to 1000');
    }
    const tables = platform(database);
    const organization = await organizationId(tables, options.org);
    const items = await listInbox(tables, organization, { status, limit });
    const rows = items.map((item) => [
      item.id,
      item.receivedAt.toISOString(),
      item.eventId.slice(0, 50),
      item.status,
      String(item.attempts),
      item.error,
    ]);
    return {
      json: { items: items.map(asJson) },
      text:
        items.length === 0
          ? `"${options.org}" has no such deliveries.`
          : table(['id', 'received', 'event', 'state', 'attempts', 'reason'], rows),
    };
  });

/** `inbox show <id>`. */
export const inboxShow = (id: string, { org }: { org: string }): Promise<Result> =>
  withInstance(async ({ database }) => {
    const tables = platform(database);
    const item = await showInbox(tables, await organizationId(tables, org), itemId(id));
    const json = { ...asJson(item), payload: item.payload };
    const lines = Object.entries(json).map(([key, value]) => `${key.padEnd(12)} ${value ?? ''}`);
    return { json, text: lines.join('\n') };
  });

/** `inbox replay <id>`. */
export const inboxReplay = (id: string, { org }: { org: string }): Promise<Result> =>
  withInstance(async ({ database, config }) => {
    const by = commandLine(config);
    await transaction(database, async (tables) =>
      replay(tables, by, await organizationId(tables, org), itemId(id)),
    );
    return { json: { id, status: 'waiting' }, text: `Item ${id} waits to be processed again by the server.` };
  });

function itemId(id: string): string {
  if (!isRowId(id)) throw new UserError(`"${id}" is no id of an inbox item; "inbox list" shows them`);
  return id;
}

const asJson = (item: InboxItem) => ({
  id: item.id,
  integration: item.integration,
  event: item.eventId,
  status: item.status,
  attempts: item.attempts,
  reason: item.error,
  received_at: item.receivedAt.toISOString(),
});

/** What `simulate` is told. */
export interface SimulateOptions {
  readonly org: string;
  readonly url?: string | undefined;
  readonly endpoint?: string | undefined;
  readonly secretStdin?: true | undefined;
  readonly steps?: string | undefined;
  readonly burst: string;
}

/** How long to wait until what arrived is processed. */
const settleMs = 30_000;

/** `simulate <provider>`: against a running instance (--url), or against one that runs just for this. */
export async function simulate(provider: string, options: SimulateOptions): Promise<Result> {
  const steps = stepsOf(options.steps);
  const burst = Number(options.burst);
  if (!/^\d{1,5}$/.test(options.burst) || burst < 1 || burst > 10_000) {
    throw new UserError('--burst must be from 1 to 10000');
  }
  const secret = options.secretStdin ? await firstLineOfInput() : undefined;
  if (secret?.trim() === '') throw new UserError('standard input holds no secret');
  const plan = { steps, burst };
  const config = readConfig();
  const given = { org: options.org, endpoint: options.endpoint, secret };
  if (options.url !== undefined) {
    const origin = originOf(options.url);
    // The embedded database belongs to the server that runs on it.
    if (config.databaseAddress === undefined) {
      const settings = await readSettings(config);
      const play = await prepare(provider, given, settings, undefined);
      const outcome = await run(play.script, targetOf(play, origin, settings), plan);
      return report(provider, outcome, undefined);
    }
    return withInstance((instance) => against(instance, provider, given, origin, plan));
  }
  return withInstance(async (instance) => {
    const app = await build(instance.config, instance.resources, instance.database);
    try {
      await app.listen({ host: '127.0.0.1', port: 0 });
      const { port } = app.server.address() as AddressInfo;
      return await against(instance, provider, given, `http://127.0.0.1:${port}`, plan);
    } finally {
      await app.close();
    }
  });
}

/** Where deliveries go: to the origin that is called, signed for the one that providers know. */
function targetOf({ path, secret }: Play, origin: string, { public_url }: Settings): Target {
  const publicUrl = `${withoutSlash(public_url) || origin}${path}`;
  return { url: origin + path, publicUrl, secret };
}

async function against(
  { config, database, resources }: Instance,
  provider: string,
  given: { org: string; endpoint?: string | undefined; secret?: string | undefined },
  origin: string,
  plan: { steps: readonly StepName[]; burst: number },
): Promise<Result> {
  const settings = await readSettings(config);
  const inside: Inside = { tables: platform(database), resources, sealed: sealing(config) };
  const play = await prepare(provider, given, settings, inside);
  const outcome = await run(play.script, targetOf(play, origin, settings), plan);
  const end = performance.now() + settleMs;
  let arrived = await play.arrived(inside, outcome.eventIds);
  while ((arrived.waiting ?? 0) > 0 && performance.now() < end) {
    await pause(100);
    arrived = await play.arrived(inside, outcome.eventIds);
  }
  return report(provider, outcome, arrived);
}

function report(
  provider: string,
  { results, eventIds }: Outcome,
  arrived: Readonly<Record<string, number>> | undefined,
): Result {
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
      ? 'What arrived is shown under Setup, Deliveries: the embedded database belongs to the server.'
      : `Of ${eventIds.length} different events arrived: ${counts(arrived)}.`;
  return {
    json: { provider, steps: results, events: eventIds.length, arrived: arrived ?? null },
    text: `${table(['step', 'sent', 'answers', 'p50 ms', 'p99 ms'], rows)}\n${summary}`,
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
