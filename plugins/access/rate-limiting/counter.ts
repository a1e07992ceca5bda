import cluster from 'node:cluster';
import {
  type RateLimiterAbstract,
  RateLimiterCluster,
  RateLimiterClusterMaster,
  RateLimiterMemory,
} from 'rate-limiter-flexible';

/** How long failures are counted, in seconds, starting with the first failure. */
export const windowSeconds = 15 * 60;
/** Timeout of requests to the process that counts for all workers, in milliseconds. */
const timeoutMs = 2000;

/**
 * Creates a counter of failures per key within 15 minutes, shared by all processes of this node.
 * @param name unique within the process
 * @param points maximum number of failures
 */
export const failureCounter = (name: string, points: number): RateLimiterAbstract =>
  cluster.isWorker
    ? new RateLimiterCluster({ keyPrefix: name, points, duration: windowSeconds, timeoutMs })
    : new RateLimiterMemory({ keyPrefix: name, points, duration: windowSeconds });

/** Starts counting failures in this process on behalf of its workers. */
export const countForWorkers = (): void => {
  new RateLimiterClusterMaster();
};
