import type { FastifyInstance } from 'fastify';
import { platform, type Sealing, transaction } from '../../engine/platform/index.ts';
import { TryAgain } from '../channels/channel.ts';
import { channelOf } from '../channels/index.ts';
import type { Webhooks } from '../index.ts';
import { claim, fail, finish, type InboxItem, remember } from './inbox.ts';
import { openIntegration } from './integrations.ts';

/** How often to look for items that other nodes received or whose time has come, in milliseconds. */
const pollMs = 1000;
/** Items that a node processes at a time. */
const hands = 20;

/** How long to wait after the n-th failure, in milliseconds: doubling from 2 s to an hour, a half of it by chance. */
export function backoff(attempts: number, random: () => number = Math.random): number {
  const longest = Math.min(2000 * 2 ** (attempts - 1), 3_600_000);
  return longest / 2 + (longest / 2) * random();
}

/** Processes what the inbox holds, on whichever node is free. */
export interface Worker {
  /** Says that there is something to do. */
  readonly wake: () => void;
}

export function startWorker(app: FastifyInstance, webhooks: Webhooks, sealing: Sealing): Worker {
  const { database, settings } = webhooks;
  let stopping = false;
  let running: Promise<void> | undefined;
  let again = false;

  const work = async (item: InboxItem): Promise<void> => {
    try {
      await processItem(webhooks, sealing, item);
      await finish(platform(database), item);
    } catch (cause) {
      const { attempts } = settings.current.inbox;
      const next = item.attempts < attempts ? new Date(Date.now() + backoff(item.attempts)) : undefined;
      const reason = cause instanceof TryAgain ? cause.message : `failed: ${(cause as Error).name}`;
      app.log.warn({ item: item.id, attempts: item.attempts, given_up: next === undefined }, reason);
      await fail(platform(database), item, reason, next);
    }
  };
  const busy = new Set<Promise<void>>();
  /** Whether the last look took all that it could, so that there may be more. */
  let more = false;
  const unreadable = (cause: { code?: string } | undefined) =>
    app.log.warn({ code: cause?.code }, 'the inbox could not be read; trying again');
  const begin = (item: InboxItem): void => {
    const one = work(item)
      .catch(unreadable)
      .finally(() => {
        busy.delete(one);
        if (more) wake();
      });
    busy.add(one);
  };
  /** Takes what is due while hands are free. An item that takes long holds up none of the others. */
  const drain = async (): Promise<void> => {
    do {
      again = false;
      const free = hands - busy.size;
      if (free === 0) return;
      const items = await claim(platform(database), free);
      more = items.length === free;
      items.forEach(begin);
    } while ((again || more) && !stopping);
  };
  const wake = () => {
    again = true;
    if (stopping || running !== undefined) return;
    running = drain()
      .catch(unreadable)
      .finally(() => {
        running = undefined;
        if (again) wake();
      });
  };
  const timer = setInterval(wake, pollMs).unref();
  app.addHook('onReady', async () => wake());
  app.addHook('preClose', async () => {
    stopping = true;
    clearInterval(timer);
    await running;
    await Promise.all(busy);
  });
  return { wake };
}

async function processItem(webhooks: Webhooks, sealing: Sealing, item: InboxItem): Promise<void> {
  const { database } = webhooks;
  const by = { organization: item.organization, id: item.integration };
  const integration = await openIntegration(platform(database), sealing, by);
  if (integration === undefined) throw new TryAgain('the integration is switched off');
  const channel = channelOf(integration.provider);
  if (channel === undefined) throw new TryAgain(`there is no channel ${integration.provider}`);
  await channel.process(
    { id: item.eventId, data: JSON.parse(item.payload) },
    {
      webhooks,
      integration,
      requestId: `inbox-${item.id}`,
      receivedAt: item.receivedAt,
      transaction: (work) => transaction(database, work),
      remember: (tables, data) => remember(tables, item, data),
    },
  );
}
