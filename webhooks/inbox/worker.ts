import { setImmediate as requestsFirst } from 'node:timers/promises';
import type { FastifyInstance } from 'fastify';
import { sqlState } from '../../engine/database/index.ts';
import { HttpError, UserError } from '../../engine/errors.ts';
import { tablesOf, transaction } from '../../engine/tables/index.ts';
import type { Sealing } from '../../plugins/secrets/index.ts';
import { channelOf, GiveUp, TryAgain } from '../channels/index.ts';
import type { Webhooks } from '../endpoint/index.ts';
import { type Claimed, claim, fail, finish, remember } from './claim.ts';
import { failureLog } from './failures.ts';
import { type Slots, slots } from './slots.ts';

/** How often to look for items that other nodes received or whose retry is due, in milliseconds. */
const pollMs = 1000;
/** Items that a node processes at the same time. */
const concurrency = 20;
/** How many items a node processes before it claims more: each claim is a statement. */
const batch = 5;

/** The delay after the n-th failure, in milliseconds: doubles from 2 s to an hour, half of it is random. */
export function backoff(attempts: number, random: () => number = Math.random): number {
  const longest = Math.min(2000 * 2 ** (attempts - 1), 3_600_000);
  return longest / 2 + (longest / 2) * random();
}

/** The reason for administrators: the text of our own errors, else the kind, because other texts may hold personal data. */
const reasonOf = (cause: unknown): string =>
  [TryAgain, GiveUp, UserError, HttpError].some((known) => cause instanceof known)
    ? (cause as Error).message
    : `failed: ${(cause as Error).name}`;

/**
 * Whether a retry would fail in the same way: the event is not what its channel sends, or more than the
 * database can store. It is given up immediately, for a person to look at.
 */
const isHopeless = (cause: unknown): boolean =>
  [GiveUp, TypeError, RangeError, SyntaxError].some((kind) => cause instanceof kind) ||
  (cause instanceof HttpError && cause.status < 500) ||
  /^(?:22|54)/.test(sqlState(cause) ?? '');

/** Processes the items of the inbox on any free node. */
export interface Worker {
  /** Signals new items. */
  readonly wake: () => void;
}

export function startWorker(app: FastifyInstance, webhooks: Webhooks, sealing: Sealing): Worker {
  const { database, settings } = webhooks;
  const failures = failureLog((details, text) => app.log.warn(details, text));
  const unreadable = (cause: { code?: string } | undefined) =>
    failures.report('unreadable', { code: cause?.code }, 'the inbox could not be read; trying again');

  const work = async (item: Claimed): Promise<void> => {
    // The embedded database responds within the same turn of the event loop: without this, a full inbox would keep
    // the process from reading requests.
    await requestsFirst();
    try {
      await processItem(webhooks, sealing, item);
      await finish(tablesOf(database), item);
    } catch (cause) {
      const reason = reasonOf(cause);
      const { id, attempts, organization, integration } = item;
      const givenUp = isHopeless(cause) || attempts >= settings.current.inbox.attempts;
      const details = { organization, integration: integration.id, item: id, attempts, given_up: givenUp };
      failures.report(`${integration.id} ${givenUp} ${reason}`, details, reason);
      await fail(tablesOf(database), item, reason, givenUp ? undefined : backoff(attempts));
    }
  };
  const busy: Slots = slots(concurrency);
  let stopping = false;
  /** The organization that was served last. */
  let last = '0';
  /** Whether the last claim may have left due items, and how many items have begun and ended since. */
  let more = false;
  let begun = 0;
  let ended = 0;
  const begin = (item: Claimed): void => {
    last = item.organization;
    begun += 1;
    busy.hold(item.organization, work(item).catch(unreadable), () => {
      ended += 1;
      if (more && ended >= Math.min(batch, begun)) wake();
    });
  };
  /** Claims due items while there are slots. A slow item does not delay items of other organizations. */
  const drain = async (): Promise<void> => {
    begun = 0;
    ended = 0;
    do {
      const limit = busy.share();
      const without = busy.full();
      more = limit === 0 || without.length > 0;
      if (limit === 0) return;
      const wanted = { limit, without, after: last };
      const items = await transaction(database, (within) => claim(within, wanted));
      items.forEach(begin);
      if (items.length < limit) return;
      more = true;
    } while (!stopping);
  };
  let running: Promise<void> | undefined;
  let again = false;
  const wake = () => {
    again = true;
    if (stopping || running !== undefined) return;
    again = false;
    running = drain()
      .catch(unreadable)
      .finally(() => {
        running = undefined;
        if (again) wake();
      });
  };
  const { now } = app.background.every(app, 'inbox', pollMs, wake);
  app.addHook('preClose', async () => {
    stopping = true;
    await running;
    await busy.done();
    failures.close();
  });
  return { wake: now };
}

async function processItem(webhooks: Webhooks, { open }: Sealing, item: Claimed): Promise<void> {
  const { database } = webhooks;
  const { organization, integration } = item;
  const channel = channelOf(integration.provider);
  if (channel === undefined)
    throw new TryAgain(`this version of the service has no channel "${integration.provider}"`);
  const [secret, token] = await Promise.all([open(integration.secret), open(integration.token)]);
  await channel.process(
    { id: item.eventId, data: JSON.parse(item.payload) },
    {
      webhooks,
      integration: { ...integration, organization, secret, token },
      requestId: `inbox-${item.id}`,
      ageMs: item.ageMs,
      transaction: (work) => transaction(database, work),
      remember: (tables, data) => remember(tables, item, data),
    },
  );
}
