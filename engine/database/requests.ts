import { AsyncLocalStorage } from 'node:async_hooks';

/** A request, as far as the statements that its handler starts are concerned. */
export class RequestScope {
  readonly #owner: () => string;
  readonly #listeners = new Set<() => void>();
  #isDisconnected = false;

  /** @param owner returns the ID of the organization that its statements count for; empty while it is unknown */
  constructor(owner: () => string) {
    this.#owner = owner;
  }

  get owner(): string {
    return this.#owner();
  }

  /** Whether the client disconnected before its response had ended. */
  get isDisconnected(): boolean {
    return this.#isDisconnected;
  }

  /** Calls the listener if the client disconnects before its response has ended. @returns removes the listener */
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
  /** Whether a slot of the admission is held, so that statements can run immediately. */
  readonly isAdmitted: boolean;
  /** Whether other requests wait for the same result: then it outlives its client. */
  readonly isShared: boolean;
}

const contexts = new AsyncLocalStorage<Context | undefined>();

/** Runs the handler of a request: its statements go through admission and, if they only read, end with its client. */
export const runInRequest = <T>(request: RequestScope, work: () => T): T =>
  contexts.run({ request, isAdmitted: false, isShared: false }, work);

/** Runs work that a request merely triggers, for example a worker that it wakes. */
export const runOutsideRequests = <T>(work: () => T): T => contexts.run(undefined, work);

/** Runs a look-up whose result other requests wait for too: it is not cancelled when the first client disconnects. */
export function runShared<T>(work: () => T): T {
  const context = contexts.getStore();
  return context === undefined ? work() : contexts.run({ ...context, isShared: true }, work);
}

/** Marks that a slot is held while work runs; see {@link slotState}. */
export function runAdmitted<T>(work: () => T): T {
  const context = contexts.getStore();
  return context === undefined ? work() : contexts.run({ ...context, isAdmitted: true }, work);
}

/** Whether the current work may send statements: it holds a slot, needs one first, or is not for a request. */
export function slotState(): 'held' | 'needed' | 'none' {
  const context = contexts.getStore();
  if (context === undefined) return 'none';
  return context.isAdmitted ? 'held' : 'needed';
}

/** Returns the owner for whom the current work needs a slot: empty if unknown, undefined if it needs none. */
export function slotOwner(): string | undefined {
  return slotState() === 'needed' ? contexts.getStore()?.request.owner : undefined;
}

/** The request whose client the current statement is for; undefined for work that does not end with a client. */
export function cancellingRequest(): RequestScope | undefined {
  const context = contexts.getStore();
  return context?.isShared === false ? context.request : undefined;
}

/** Produces the items of a source in the context of the current request, regardless of their reader. */
export function boundToRequest<T>(source: AsyncGenerator<T>): AsyncGenerator<T> {
  const within = AsyncLocalStorage.snapshot();
  const bound: AsyncGenerator<T> = {
    next: () => within(() => source.next()),
    return: (value) => within(() => source.return(value)),
    throw: (cause) => within(() => source.throw(cause)),
    [Symbol.asyncIterator]: () => bound,
    [Symbol.asyncDispose]: () => within(() => source[Symbol.asyncDispose]()),
  };
  return bound;
}
