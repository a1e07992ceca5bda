import cluster from 'node:cluster';
import {
  type RateLimiterAbstract,
  RateLimiterCluster,
  RateLimiterClusterMaster,
  RateLimiterMemory,
} from 'rate-limiter-flexible';

/** How long failures count, in seconds, starting with the first. */
export const windowSeconds = 15 * 60;
/** Timeout of requests to the process that counts for all workers, in milliseconds. */
const timeoutMs = 2000;

/**
 * Counts failures per key within 15 minutes, for all processes of this node.
 * @param name unique within the process
 * @param points maximum number of failures
 */
export const failureCounter = (name: string, points: number): RateLimiterAbstract =>
  cluster.isWorker
    ? new RateLimiterCluster({ keyPrefix: name, points, duration: windowSeconds, timeoutMs })
    : new RateLimiterMemory({ keyPrefix: name, points, duration: windowSeconds });

/** Counts failures for the workers of this process. */
export const countForWorkers = (): void => {
  new RateLimiterClusterMaster();
};
