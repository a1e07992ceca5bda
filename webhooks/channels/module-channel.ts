import { sqlState } from '../../engine/database/index.ts';
import { errors, HttpError, UserError } from '../../engine/errors.ts';
import { rejectOnAbort } from '../../engine/records/index.ts';
import type { Webhooks } from '../endpoint/index.ts';
import {
  type Channel,
  type ChannelContext,
  type ChannelServices,
  PermanentError,
  type ProviderRequest,
  RetryableError,
} from './channel.ts';

/** A channel that a module of an instance adds. Its `process` and `send` receive the module's own values. */
export type ModuleChannel<Own> = Omit<Channel<Own>, 'needs'>;

/**
 * Returns whether an error explains itself to administrators, or comes from the database, which determines whether the event is
 * retried.
 */
const isExpected = (cause: unknown): boolean =>
  [RetryableError, PermanentError, UserError, HttpError].some((kind) => cause instanceof kind) ||
  sqlState(cause) !== undefined;

/** Returns the events in a delivery. @throws HttpError 400 if the body is not JSON */
function parseEvents(events: Channel['events'], delivery: ProviderRequest): ReturnType<Channel['events']> {
  try {
    return events(delivery);
  } catch (cause) {
    throw cause instanceof SyntaxError ? errors.invalidJson(cause.message) : cause;
  }
}

/**
 * Returns the channel of a module. Errors of the module's code are logged and retried, because the code can be fixed.
 * @param valuesOf returns the module's own values
 */
export function moduleChannel<Own extends object>(
  module: string,
  { events, process, send, ...rest }: ModuleChannel<Own>,
  valuesOf: (webhooks: Webhooks) => Own,
): Channel {
  const call = async <T>(
    { webhooks, signal }: ChannelServices & Pick<ChannelContext, 'signal'>,
    place: string,
    work: () => Promise<T>,
  ): Promise<T> => {
    try {
      return await Promise.race([work(), rejectOnAbort(signal)]);
    } catch (cause) {
      if (isExpected(cause)) throw cause;
      webhooks.warn({ module, place, err: cause }, 'the channel of a module failed');
      throw new RetryableError(
        signal.aborted
          ? `the module ${module} took too long`
          : `the module ${module} failed: ${cause instanceof Error ? cause.name : 'unknown error'}`,
        { cause },
      );
    }
  };
  return {
    ...rest,
    events: (delivery) => {
      const list = parseEvents(events, delivery);
      if (!list.every(({ id, data }) => typeof id === 'string' && id !== '' && data !== undefined))
        throw new Error(`the module ${module} returned an event without an ID or data`);
      return list;
    },
    process: (event, context) =>
      call(context, 'process', async () => {
        const { webhooks, ...values } = context;
        await process(event, { ...values, ...valuesOf(webhooks) });
      }),
    ...(send && {
      send: (message, context) =>
        call(context, 'send', async () => {
          const { webhooks, ...values } = context;
          const id: unknown = await send(message, { ...values, ...valuesOf(webhooks) });
          if (typeof id !== 'string' || id === '')
            throw new Error('send must return the ID of the message at the provider');
          return id;
        }),
    }),
  };
}
