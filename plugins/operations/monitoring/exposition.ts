import { Gauge, Registry } from '@prometheus-io/client';
import { aggregateFamilies, type FamilyValues } from './families.ts';
import type { ReadinessReport } from './readiness.ts';

/** Metrics that the admin port provides, rather than collecting them from the processes. */
const ownFamilies = [
  { name: 'crm_ready', help: 'Whether a /readyz check passes (1) or fails (0).', labelNames: ['check'] },
  {
    name: 'crm_replica_used',
    help: 'Whether a replica serves reads (1) or is excluded (0); /readyz gives the reason.',
    labelNames: ['replica'],
  },
  { name: 'crm_workers', help: 'Configured number of serving processes.', labelNames: [] },
  { name: 'crm_workers_serving', help: 'Number of serving processes.', labelNames: [] },
] as const;

/** Renders all metrics in the Prometheus format. @param processes each process's metric families */
export async function exposition(
  { checks, replicas, workers }: ReadinessReport,
  processes: readonly (readonly FamilyValues[])[],
): Promise<{ readonly text: string; readonly type: string }> {
  const registry = new Registry();
  const [readyGauge, replicaGauge, workersGauge, servingGauge] = ownFamilies.map(
    (family) => new Gauge<string>({ ...family, labelNames: [...family.labelNames], registers: [registry] }),
  );
  for (const [check, problem] of Object.entries(checks))
    readyGauge?.set({ check }, problem === undefined ? 1 : 0);
  for (const [replica, problem] of Object.entries(replicas ?? {}))
    replicaGauge?.set({ replica }, problem === null ? 1 : 0);
  workersGauge?.set(workers?.of ?? 1);
  servingGauge?.set(workers?.serving ?? 1);
  const aggregate = aggregateFamilies([
    (await registry.getMetricsAsJSON()) as readonly FamilyValues[],
    ...processes,
  ]);
  return { text: await aggregate.metrics(), type: aggregate.contentType };
}

/** Implements `countsOf` from admin-server.ts. */
export async function counts(processes: readonly (readonly FamilyValues[])[]): Promise<FamilyValues[]> {
  const families = (await aggregateFamilies(processes).getMetricsAsJSON()) as readonly FamilyValues[];
  return families.filter(({ type, aggregator }) => type !== 'gauge' && aggregator !== 'omit');
}
