import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { FamilyValues } from './families.ts';

/** Upper bounds of the histogram's buckets, in seconds. */
const bounds = [0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10];
/** HTTP methods with their own label value. Clients can also send any other method. */
const methods = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS', 'QUERY'];

const name = 'crm_http_request_duration_seconds';
/** Name, type and help text of the request metric. */
const requestDurations = {
  name,
  type: 'histogram',
  help: "Time until the response was sent, by method, route, status class (for example 2xx) and the lane of the request's last statement; requests whose client disconnected are not counted.",
} as const;

interface Durations {
  readonly labels: Readonly<Record<string, string>>;
  /** Number of requests per bucket. Buckets are not cumulative, and the last bucket has no upper bound. */
  readonly counts: number[];
  sum: number;
}

/**
 * Measures requests. Measuring is cheap, because each route's counter is created at boot.
 * @returns a function that reads the durations
 */
export function measureRequests(app: FastifyInstance): () => FamilyValues {
  const allDurations: Durations[] = [];

  /** Returns a function that counts a route's requests. */
  const counterOf = (route: string) => {
    const byMethod = new Map<string, Map<string, Durations[]>>();
    const add = (method: string, status: number, lane: string): Durations => {
      const labels = { method, route, status: `${status}xx`, ...(lane !== '' && { lane }) };
      const durations = { labels, counts: new Array<number>(bounds.length + 1).fill(0), sum: 0 };
      allDurations.push(durations);
      const byLane = byMethod.get(method) ?? new Map<string, Durations[]>();
      byMethod.set(method, byLane);
      const byStatus = byLane.get(lane) ?? [];
      byLane.set(lane, byStatus);
      byStatus[status] = durations;
      return durations;
    };
    return ({ method: requestMethod, trace }: FastifyRequest, reply: FastifyReply): void => {
      const method = methods.includes(requestMethod) ? requestMethod : 'other';
      const lane = trace?.lane ?? '';
      const status = Math.trunc(reply.statusCode / 100);
      const durations = byMethod.get(method)?.get(lane)?.[status] ?? add(method, status, lane);
      const seconds = reply.elapsedTime / 1000;
      let index = 0;
      while (index < bounds.length && seconds > (bounds[index] ?? 0)) index++;
      durations.counts[index] = (durations.counts[index] ?? 0) + 1;
      durations.sum += seconds;
    };
  };

  app.addHook('onRoute', (route) => {
    const count = counterOf(route.url);
    route.onResponse = [
      (request, reply, done) => {
        count(request, reply);
        done();
      },
      ...[route.onResponse ?? []].flat(),
    ];
  });
  // All URLs that do not match a route share one counter.
  const countUnknown = counterOf('unknown');
  app.addHook('onResponse', (request, reply, done) => {
    if (request.is404) countUnknown(request, reply);
    done();
  });
  return () => ({ ...requestDurations, aggregator: 'sum', values: allDurations.flatMap(valuesOf) });
}

function valuesOf({ labels, counts, sum }: Durations): FamilyValues['values'] {
  let count = 0;
  const buckets = counts.map((bucketCount, index) => {
    count += bucketCount;
    return {
      metricName: `${name}_bucket`,
      labels: { ...labels, le: bounds[index] ?? '+Inf' },
      value: count,
    };
  });
  return [
    ...buckets,
    { metricName: `${name}_sum`, labels, value: sum },
    { metricName: `${name}_count`, labels, value: count },
  ];
}
