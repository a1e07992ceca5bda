import type { FastifyInstance } from 'fastify';
import { runOutsideRequests } from '../database/index.ts';

declare module 'fastify' {
  interface FastifyInstance {
    /** Scheduler for work that is not part of a request. */
    background: Background;
  }
}

/** Background work that one process performs for all processes of an instance. */
interface Background {
  /**
   * Repeats work at an interval while the app runs and this process is responsible for background work. The
   * first run starts when the process becomes responsible. Runs never overlap, and closing the app waits for
   * the current run. Pauses while the app is read-only.
   * @param name unique within the app
   */
  readonly every: (app: FastifyInstance, name: string, intervalMs: number, work: Work) => PeriodicTask;
  /** Returns whether this process is responsible for background work. */
  readonly isResponsible: () => boolean;
}

/** A function that performs background work. Its promise must not reject. */
type Work = () => void | Promise<void>;

/** Work repeated at an interval. */
export interface PeriodicTask {
  /** Triggers a run in the responsible process immediately. */
  readonly runNow: () => void;
}

/** The background work of one process, with additional functions for the code that manages the process. */
export interface BackgroundOfProcess extends Background {
  /** Makes this process responsible for background work. */
  readonly start: () => void;
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
 * Creates a process's background work.
 * @param requestRun asks the responsible process to run a task. Absent if this process is always responsible
 */
export function backgroundWork(requestRun?: (name: string) => void): BackgroundOfProcess {
  let isResponsible = requestRun === undefined;
  /** Tasks of all apps that are ready. */
  const tasks = new Map<string, Task>();
  const startTask = (task: Task): void => {
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
        if (isResponsible) startTask(task);
      });
      app.addHook('preClose', async () => {
        tasks.delete(name);
        clearInterval(task.timer);
        await task.running;
      });
      // A run triggered by a request does not delay the request or count against its limits.
      return {
        runNow: () =>
          isResponsible || requestRun === undefined ? runOutsideRequests(task.work) : requestRun(name),
      };
    },
    isResponsible: () => isResponsible,
    start: () => {
      if (isResponsible) return;
      isResponsible = true;
      for (const task of tasks.values()) startTask(task);
    },
    run: (name) => tasks.get(name)?.work(),
  };
}

/** Work of which requests that arrive while it runs lead to one more run. */
export interface RepeatedWork {
  /** Starts a run or, if one is running, another one after it, because the current run can miss what was requested during it. */
  readonly wake: () => void;
  /** Resolves when the current run has ended. */
  readonly ended: () => Promise<void>;
}

/**
 * Returns work whose runs never overlap.
 * @param run its promise must not reject
 * @param isPaused returns whether no run starts
 */
export function repeatedWork(run: () => Promise<void>, isPaused: () => boolean): RepeatedWork {
  let running: Promise<void> | undefined;
  let isRequested = false;
  const wake = (): void => {
    isRequested = true;
    if (running !== undefined || isPaused()) return;
    isRequested = false;
    running = run().finally(() => {
      running = undefined;
      if (isRequested) wake();
    });
  };
  return {
    wake,
    ended: async () => {
      await running;
    },
  };
}
