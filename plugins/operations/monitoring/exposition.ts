import { Gauge, Registry } from '@prometheus-io/client';
import { aggregateFamilies, type FamilyValues } from './families.ts';
import type { ReadinessReport } from './readiness.ts';

/** What the port itself knows, whatever processes say. */
const ownFamilies = [
  { name: 'crm_ready', help: 'Whether a check of /readyz passes (1) or fails (0).', labelNames: ['check'] },
  {
    name: 'crm_replica_used',
    help: 'Whether a replica serves reads (1) or is excluded (0); /readyz gives the reason.',
    labelNames: ['replica'],
  },
  { name: 'crm_workers', help: 'Configured number of serving processes.', labelNames: [] },
  { name: 'crm_workers_serving', help: 'Number of serving processes.', labelNames: [] },
] as const;

/**
 * Everything that operators watch, as Prometheus reads it.
 * @param processes the families of each process
 */
export async function exposition(
  { checks, replicas, workers }: ReadinessReport,
  processes: readonly (readonly FamilyValues[])[],
): Promise<{ readonly text: string; readonly type: string }> {
  const own = new Registry();
  const [ready, used, of, serving] = ownFamilies.map(
    (family) => new Gauge<string>({ ...family, labelNames: [...family.labelNames], registers: [own] }),
  );
  for (const [check, problem] of Object.entries(checks)) ready?.set({ check }, problem === undefined ? 1 : 0);
  for (const [replica, problem] of Object.entries(replicas ?? {}))
    used?.set({ replica }, problem === null ? 1 : 0);
  of?.set(workers?.of ?? 1);
  serving?.set(workers?.serving ?? 1);
  const all = aggregateFamilies([(await own.getMetricsAsJSON()) as readonly FamilyValues[], ...processes]);
  return { text: await all.metrics(), type: all.contentType };
}

/** See `countsOf`. */
export async function counts(processes: readonly (readonly FamilyValues[])[]): Promise<FamilyValues[]> {
  const all = (await aggregateFamilies(processes).getMetricsAsJSON()) as readonly FamilyValues[];
  return all.filter(({ type, aggregator }) => type !== 'gauge' && aggregator !== 'omit');
}
