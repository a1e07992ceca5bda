import { Gauge, Registry } from '@prometheus-io/client';
import { aggregateFamilies, type FamilyValues } from './families.ts';
import type { ReadinessReport } from './readiness.ts';

/** What the port itself knows, whatever processes say. */
const ownFamilies = [
  { name: 'crm_ready', help: 'Whether a check of /readyz passes (1) or fails (0).', labelNames: ['check'] },
  {
    name: 'crm_replica_used',
    help: 'Whether reads go to a replica (1), or it is left out (0); see /readyz for why.',
    labelNames: ['replica'],
  },
  { name: 'crm_workers', help: 'Processes that are meant to serve.', labelNames: [] },
  { name: 'crm_workers_serving', help: 'Processes that serve.', labelNames: [] },
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
