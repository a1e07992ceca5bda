import { LRUCache } from 'lru-cache';
import type { Runnable } from './database.ts';
import { Messages } from './messages.ts';
import { statementsPerConnection } from './named-statements.ts';

/** The messages of one connection that keeps its named statements prepared, the most recently used of them. */
export class NamedMessages {
  readonly #messages = new Messages();
  readonly #names = new LRUCache<string, true>({
    max: statementsPerConnection,
    // Sent ahead of the statement that takes its place.
    dispose: (_, name, reason) => reason === 'evict' && this.#messages.close(name),
  });

  /** Runs a statement in a transaction of its own; without a name it is not kept. */
  run({ name, text, values }: Pick<Runnable, 'name' | 'text' | 'values'>): void {
    const messages = this.#messages;
    if (name === '' || this.#names.get(name) === undefined) messages.parse(name, text);
    if (name !== '') this.#names.set(name, true);
    messages.bind(name, values);
    messages.execute();
    messages.sync();
  }

  /** After a failure: it may not have been prepared, or its plan may not be valid any more. The next run prepares it. */
  forget(name: string): void {
    if (this.#names.delete(name)) this.#messages.close(name);
  }

  /** Takes all messages; the next ones begin again. */
  take(): Buffer {
    return this.#messages.take();
  }
}
