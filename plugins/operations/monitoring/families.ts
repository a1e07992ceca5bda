import { Registry } from '@prometheus-io/client';
import type { Metrics } from '../../../engine/modules/index.ts';

/** A metric family's values in the metrics library's format. Processes exchange them in this format. */
export interface FamilyValues {
  readonly name: string;
  readonly help: string;
  readonly type: string;
  readonly aggregator?: string;
  readonly values: readonly {
    readonly value: number;
    readonly labels: Readonly<Record<string, string | number>>;
    /** Name of a sample in a histogram, with the suffix _bucket, _sum or _count. */
    readonly metricName?: string;
  }[];
}

/** Timeout for reading values, in milliseconds, so that an unresponsive database cannot block a scrape. */
const readMs = 1000;

/** Creates a function that reads metric families. Values that cannot be read in time are omitted. */
export function familyReader(sources: readonly Metrics[]): (ofInstance: boolean) => Promise<FamilyValues[]> {
  const readers = sources.map((metrics) => ({ metrics, read: oneAtATime(metrics) }));
  return async (ofInstance) => {
    const results = await Promise.all(
      readers
        .filter(({ metrics }) => ofInstance || !metrics.ofInstance)
        .map(async ({ read }) => (await Promise.race([read(), timeout()])) ?? []),
    );
    const families = new Map<string, FamilyValues & { values: FamilyValues['values'][number][] }>();
    for (const { metrics } of readers)
      for (const [name, family] of Object.entries(metrics.families))
        families.set(name, { name, ...family, aggregator: 'sum', values: [] });
    for (const { name, ...value } of results.flat()) families.get(name)?.values.push(value);
    return [...families.values()];
  };
}

interface Value {
  readonly name: string;
  readonly value: number;
  readonly labels: Readonly<Record<string, string>>;
  readonly metricName?: string;
}

/** Runs only one read at a time. Concurrent callers share its result. */
function oneAtATime({ read }: Metrics): () => Promise<readonly Value[] | undefined> {
  let currentRead: Promise<readonly Value[] | undefined> | undefined;
  const start = async (): Promise<readonly Value[] | undefined> => {
    const values: Value[] = [];
    try {
      await read((name, value, labels = {}, sample) =>
        values.push({ name, value, labels, ...(sample && { metricName: `${name}_${sample}` }) }),
      );
      return values;
    } catch {
      return undefined;
    } finally {
      currentRead = undefined;
    }
  };
  return () => {
    currentRead ??= start();
    return currentRead;
  };
}

const timeout = (): Promise<undefined> =>
  new Promise((resolve) => {
    setTimeout(resolve, readMs, undefined).unref();
  });

/** Aggregates metric families from several processes. Each family specifies its aggregator. */
export const aggregateFamilies = (processes: readonly (readonly FamilyValues[])[]): Registry =>
  Registry.aggregate(processes.map((families) => [...families]));
