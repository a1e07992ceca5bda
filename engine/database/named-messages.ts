import { LRUCache } from 'lru-cache';
import type { Runnable } from './database.ts';
import { Messages } from './messages.ts';
import { statementsPerConnection } from './named-statements.ts';

/** Protocol messages of one connection, which keeps its most recently used named statements prepared. */
export class NamedMessages {
  readonly #messages = new Messages();
  readonly #names = new LRUCache<string, true>({
    max: statementsPerConnection,
    // The Close message is sent before the statement that replaces it.
    dispose: (_, name, reason) => reason === 'evict' && this.#messages.close(name),
  });

  /** Runs a statement in its own transaction. Unnamed statements are not kept. */
  run({ name, text, values }: Pick<Runnable, 'name' | 'text' | 'values'>): void {
    const messages = this.#messages;
    if (name === '' || this.#names.get(name) === undefined) messages.parse(name, text);
    if (name !== '') this.#names.set(name, true);
    messages.bind(name, values);
    messages.execute();
    messages.sync();
  }

  /**
   * Forgets a statement after a failure, because it might not be prepared or its plan might be invalid. The
   * next run prepares it again.
   */
  forget(name: string): void {
    if (this.#names.delete(name)) this.#messages.close(name);
  }

  /** Returns all messages and clears the buffer. */
  take(): Buffer {
    return this.#messages.take();
  }
}
