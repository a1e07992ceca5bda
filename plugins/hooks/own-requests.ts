import { AsyncLocalStorage } from 'node:async_hooks';
import { randomUUID } from 'node:crypto';
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import type { ClientRequest } from 'node:http';
import type { FastifyInstance } from 'fastify';
import { errors } from '../../engine/errors.ts';
import type { InstanceHooks, ModuleCall } from '../../engine/records/index.ts';

/** Header of requests that hooks and actions send, with the ID of the call. */
const header = 'crm-module-call';

/** Node.js's diagnostics channels for requests of `fetch` and of `node:http`. */
const [fetchChannel, httpChannel] = ['undici:request:create', 'http.client.request.created'];

/** What the messages of {@link fetchChannel} contain. */
interface FetchMessage {
  readonly request: { readonly addHeader: (name: string, value: string) => void };
}

/**
 * Rejects requests that hooks and actions send to their own instance. The embedded database has one connection, which their
 * transaction holds, so such a request would wait until the hook exceeds its time limit. Requests are recognized by a header,
 * because the instance can be reached under any host name.
 */
export function rejectOwnRequests(app: FastifyInstance, hooks: InstanceHooks): void {
  const running = new Map<string, Pick<ModuleCall, 'module' | 'place'>>();
  const calls = new AsyncLocalStorage<string>();
  hooks.observer.inTransaction = async (target, call) => {
    const id = randomUUID();
    running.set(id, target);
    try {
      return await calls.run(id, call);
    } finally {
      running.delete(id);
    }
  };
  /** Returns the ID of the call that runs now, unless it has ended and left work behind. */
  const currentCall = (): string | undefined => {
    const id = calls.getStore();
    return id !== undefined && running.has(id) ? id : undefined;
  };
  const markFetch = (message: unknown) => {
    const id = currentCall();
    if (id !== undefined) (message as FetchMessage).request.addHeader(header, id);
  };
  const markHttp = (message: unknown) => {
    const id = currentCall();
    const { request } = message as { readonly request: ClientRequest };
    if (id !== undefined && !request.headersSent) request.setHeader(header, id);
  };
  subscribe(fetchChannel, markFetch);
  subscribe(httpChannel, markHttp);
  app.addHook('onClose', async () => {
    unsubscribe(fetchChannel, markFetch);
    unsubscribe(httpChannel, markHttp);
  });
  app.addHook('onRequest', (request, _reply, done) => {
    const target = running.size === 0 ? undefined : running.get(String(request.headers[header]));
    done(
      target &&
        errors.moduleFailed(
          target.module,
          target.place,
          'it called its own instance, which cannot use the embedded database until the transaction has ended. Use records, or call the instance in afterCommit',
        ),
    );
  });
}
