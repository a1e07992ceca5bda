import { AsyncLocalStorage } from 'node:async_hooks';

/** Context for the statements that a request's handler runs. */
export class RequestScope {
  readonly #owner: () => string;
  readonly #listeners = new Set<() => void>();
  #isDisconnected = false;

  /**
   * Creates the scope.
   * @param owner returns the ID of the organization to which the statements are attributed, or an empty
   * string while it is unknown
   */
  constructor(owner: () => string) {
    this.#owner = owner;
  }

  get owner(): string {
    return this.#owner();
  }

  /** Whether the client disconnected before the response was complete. */
  get isDisconnected(): boolean {
    return this.#isDisconnected;
  }

  /**
   * Calls the listener if the client disconnects before the response is complete. @returns a function that
   * removes the listener
   */
  onDisconnect(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** Reports that the client has disconnected. */
  disconnect(): void {
    this.#isDisconnected = true;
    for (const listener of this.#listeners) listener();
    this.#listeners.clear();
  }
}

interface Context {
  readonly request: RequestScope;
  /** Whether the work has an admission slot, in which case its statements can run immediately. */
  readonly isAdmitted: boolean;
  /**
   * Owner of a lookup for which other requests also wait, or undefined for all other work; see
   * {@link runShared}.
   */
  readonly sharedOwner?: string;
}

const contexts = new AsyncLocalStorage<Context | undefined>();

/**
 * Runs a request's handler. Its statements are subject to admission, and its reads are cancelled if the
 * client disconnects.
 */
export const runInRequest = <T>(request: RequestScope, work: () => T): T =>
  contexts.run({ request, isAdmitted: false }, work);

/**
 * Runs work outside the context of the request that triggers it, for example a worker that the request wakes.
 */
export const runOutsideRequests = <T>(work: () => T): T => contexts.run(undefined, work);

/**
 * Runs a lookup whose result other requests also wait for. It is not cancelled if the first client
 * disconnects.
 * @param owner the ID of the organization for which the lookup needs a slot, or an empty string if the
 * requests can belong to different organizations. The request that starts the lookup does not matter, because
 * its organization can be waiting for a slot while the other requests could continue.
 */
export function runShared<T>(owner: string, work: () => T): T {
  const context = contexts.getStore();
  return context === undefined ? work() : contexts.run({ ...context, sharedOwner: owner }, work);
}

/** Runs work that already has a slot; see {@link slotState}. */
export function runAdmitted<T>(work: () => T): T {
  const context = contexts.getStore();
  return context === undefined ? work() : contexts.run({ ...context, isAdmitted: true }, work);
}

/**
 * Returns whether the current work has a slot (`held`), must get one before it runs statements (`needed`), or
 * does not belong to a request (`none`).
 */
export function slotState(): 'held' | 'needed' | 'none' {
  const context = contexts.getStore();
  if (context === undefined) return 'none';
  return context.isAdmitted ? 'held' : 'needed';
}

/**
 * Returns the organization for which the current work needs a slot, an empty string if it is unknown, or
 * undefined if no slot is needed.
 */
export function slotOwner(): string | undefined {
  const context = contexts.getStore();
  return slotState() === 'needed' ? (context?.sharedOwner ?? context?.request.owner) : undefined;
}

/**
 * Returns the request whose disconnect cancels the current statement, or undefined if it must not be
 * cancelled.
 */
export function cancellingRequest(): RequestScope | undefined {
  const context = contexts.getStore();
  return context?.sharedOwner === undefined ? context?.request : undefined;
}

/** Runs a generator in the context of the current request, regardless of its consumer's context. */
export function boundToRequest<T>(source: AsyncGenerator<T>): AsyncGenerator<T> {
  const runInContext = AsyncLocalStorage.snapshot();
  const generator: AsyncGenerator<T> = {
    next: () => runInContext(() => source.next()),
    return: (value) => runInContext(() => source.return(value)),
    throw: (cause) => runInContext(() => source.throw(cause)),
    [Symbol.asyncIterator]: () => generator,
    [Symbol.asyncDispose]: () => runInContext(() => source[Symbol.asyncDispose]()),
  };
  return generator;
}
