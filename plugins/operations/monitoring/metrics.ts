import { collectDefaultMetrics, Registry } from '@prometheus-io/client';
import type { FastifyInstance } from 'fastify';
import type { Database } from '../../../engine/database/index.ts';
import type { Metrics } from '../../../engine/modules/index.ts';
import { type FamilyValues, familyReader } from './families.ts';
import { buildMetrics, diskMetrics, loadMetrics } from './load.ts';
import { measureRequests } from './requests.ts';

/** Collects this process's metrics. @param ofInstance whether to include instance-wide metrics */
export type Collect = (ofInstance: boolean) => Promise<readonly FamilyValues[]>;

/** Metrics for the Node.js process. */
const nodeMetrics = new Registry();
collectDefaultMetrics({ register: nodeMetrics });

/**
 * Starts measuring.
 * @param dataFolder the folder whose disk is measured
 * @param moduleMetrics returns the modules' metrics
 * @param build labels that describe the running service
 */
export function measure(
  app: FastifyInstance,
  database: Database,
  dataFolder: string,
  moduleMetrics: () => readonly Metrics[],
  build: Readonly<Record<string, string>>,
): Collect {
  const requests = measureRequests(app);
  let read: ReturnType<typeof familyReader> | undefined;
  return async (ofInstance) => {
    // The reader is created by the first scrape, when all modules have been registered.
    read ??= familyReader([
      loadMetrics(database),
      diskMetrics(dataFolder),
      buildMetrics(build),
      ...moduleMetrics(),
    ]);
    const families = await read(ofInstance);
    return [requests(), ...families, ...((await nodeMetrics.getMetricsAsJSON()) as readonly FamilyValues[])];
  };
}
