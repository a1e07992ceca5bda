import { collectDefaultMetrics, Registry } from '@prometheus-io/client';
import type { FastifyInstance } from 'fastify';
import type { Database } from '../../../engine/database/index.ts';
import type { Metrics } from '../../../engine/modules/index.ts';
import { type FamilyValues, reading } from './families.ts';
import { buildMetrics, diskMetrics, loadMetrics } from './load.ts';
import { measureRequests } from './requests.ts';

/** Collects what operators watch of this process. @param ofInstance whether also what is about the instance */
export type Collect = (ofInstance: boolean) => Promise<readonly FamilyValues[]>;

/** What is measured of Node.js: of the process, whatever it serves. */
const process = new Registry();
collectDefaultMetrics({ register: process });

/**
 * Begins to measure.
 * @param dataFolder whose disk is measured
 * @param given what modules add
 * @param build what serves
 */
export function measure(
  app: FastifyInstance,
  database: Database,
  dataFolder: string,
  given: () => readonly Metrics[],
  build: Readonly<Record<string, string>>,
): Collect {
  const requests = measureRequests(app);
  let read: ReturnType<typeof reading> | undefined;
  return async (ofInstance) => {
    // Once they are asked for, everything is there.
    read ??= reading([loadMetrics(database), diskMetrics(dataFolder), buildMetrics(build), ...given()]);
    const found = await read(ofInstance);
    return [requests(), ...found, ...((await process.getMetricsAsJSON()) as readonly FamilyValues[])];
  };
}
