import cluster from 'node:cluster';
import {
  type RateLimiterAbstract,
  RateLimiterCluster,
  RateLimiterClusterMaster,
  RateLimiterMemory,
} from 'rate-limiter-flexible';

/** How long failures count, in seconds, from the first. */
export const windowSeconds = 15 * 60;
/** How long the process that counts for all workers may take, in milliseconds. */
const timeoutMs = 2000;

/**
 * Counts failures by key within a quarter of an hour: on this node, by all its processes together.
 * @param name unique within the process
 * @param points failures that are allowed
 */
export const failureCounter = (name: string, points: number): RateLimiterAbstract =>
  cluster.isWorker
    ? new RateLimiterCluster({ keyPrefix: name, points, duration: windowSeconds, timeoutMs })
    : new RateLimiterMemory({ keyPrefix: name, points, duration: windowSeconds });

/** Counts for the workers of this process. */
export const countForWorkers = (): void => {
  new RateLimiterClusterMaster();
};
