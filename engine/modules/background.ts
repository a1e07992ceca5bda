import type { FastifyInstance } from 'fastify';
import { runOutsideRequests } from '../database/index.ts';

declare module 'fastify' {
  interface FastifyInstance {
    /** The work besides requests. */
    background: Background;
  }
}

/** Work besides requests that one process of an instance does for all of them. */
export interface Background {
  /**
   * Does work at an interval while the app runs and this process is the one that does it, first when it becomes it. What
   * it returns is awaited: before the work is done again, and before the app closes. Pauses while the app is read-only.
   * @param name unique within the app
   */
  readonly every: (app: FastifyInstance, name: string, intervalMs: number, work: Work) => PeriodicTask;
  /** Whether this process is the one that does it. */
  readonly isOurs: () => boolean;
}

/** Does not reject. */
type Work = () => void | Promise<void>;

/** Work that is repeated. */
export interface PeriodicTask {
  /** Has it done now, by the process that does it. */
  readonly now: () => void;
}

/** The background work of one process. */
export interface BackgroundOfProcess extends Background {
  /** Makes this process the one that does the work. */
  readonly begin: () => void;
  /** Does a piece of the work, for another process that asked for it. */
  readonly run: (name: string) => void;
}

interface Task {
  readonly intervalMs: number;
  readonly work: () => void;
  timer?: NodeJS.Timeout;
  running?: Promise<void> | undefined;
}

/**
 * The background work of a process.
 * @param ask asks the process that does it for a piece of the work; absent if that is this one from the start
 */
export function backgroundWork(ask?: (name: string) => void): BackgroundOfProcess {
  let isOurs = ask === undefined;
  /** Of apps that are ready. */
  const tasks = new Map<string, Task>();
  const start = (task: Task): void => {
    task.timer = setInterval(task.work, task.intervalMs).unref();
    task.work();
  };
  return {
    every: (app, name, intervalMs, work) => {
      const task: Task = {
        intervalMs,
        work: () => {
          if (task.running !== undefined || app.isReadOnly?.() === true) return;
          task.running = work()?.finally(() => {
            task.running = undefined;
          });
        },
      };
      app.addHook('onReady', async () => {
        tasks.set(name, task);
        if (isOurs) start(task);
      });
      app.addHook('preClose', async () => {
        tasks.delete(name);
        clearInterval(task.timer);
        await task.running;
      });
      // A request may ask for it, and neither waits for it nor pays for it.
      return { now: () => (isOurs || ask === undefined ? runOutsideRequests(task.work) : ask(name)) };
    },
    isOurs: () => isOurs,
    begin: () => {
      if (isOurs) return;
      isOurs = true;
      for (const task of tasks.values()) start(task);
    },
    run: (name) => tasks.get(name)?.work(),
  };
}
