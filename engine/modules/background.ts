import type { FastifyInstance } from 'fastify';
import { runOutsideRequests } from '../database/index.ts';

declare module 'fastify' {
  interface FastifyInstance {
    /** Work that is not part of a request. */
    background: Background;
  }
}

/** Background work that one process of an instance does for all of them. */
export interface Background {
  /**
   * Repeats work at an interval while the app runs and this process is responsible for background work, starting when it
   * becomes responsible. The work is awaited before its next run and before the app closes. Pauses while the app is read-only.
   * @param name unique within the app
   */
  readonly every: (app: FastifyInstance, name: string, intervalMs: number, work: Work) => PeriodicTask;
  /** Whether this process is responsible for background work. */
  readonly isOurs: () => boolean;
}

/** Must not reject. */
type Work = () => void | Promise<void>;

/** Work repeated at an interval. */
export interface PeriodicTask {
  /** Triggers an immediate run in the responsible process. */
  readonly now: () => void;
}

/** Background work of one process. */
export interface BackgroundOfProcess extends Background {
  /** Makes this process responsible. */
  readonly begin: () => void;
  /** Runs a task on behalf of another process. */
  readonly run: (name: string) => void;
}

interface Task {
  readonly intervalMs: number;
  readonly work: () => void;
  timer?: NodeJS.Timeout;
  running?: Promise<void> | undefined;
}

/**
 * Creates the background work of a process.
 * @param ask requests a run from the responsible process; absent if this process is responsible from the start
 */
export function backgroundWork(ask?: (name: string) => void): BackgroundOfProcess {
  let isOurs = ask === undefined;
  /** Tasks of ready apps. */
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
      // A request that triggers a run neither waits for it nor is charged for it.
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
