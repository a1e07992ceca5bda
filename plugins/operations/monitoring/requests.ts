import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { FamilyValues } from './families.ts';

/** Upper bounds of durations, in seconds. */
const bounds = [0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10];
/** Methods with a label of their own; clients may send others. */
const methods = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'];

const name = 'crm_http_request_duration_seconds';
/** What the durations of requests are, for people. */
export const requestDurations = {
  name,
  type: 'histogram',
  help: "Time until a request's response was sent, by method, route, status class (for example 2xx) and lane of its last statement; requests whose client disconnected are not counted.",
} as const;

interface Durations {
  readonly labels: Readonly<Record<string, string>>;
  /** Requests for each bound that they were not slower than, and slower than those before; the last is for all others. */
  readonly counts: number[];
  sum: number;
}

/**
 * Measures requests. What a request adds to is found by its route, which is known at boot, so that it costs next to nothing.
 * @returns reads the durations
 */
export function measureRequests(app: FastifyInstance): () => FamilyValues {
  const all: Durations[] = [];

  /** The counter of a route. */
  const counterOf = (route: string) => {
    const known = new Map<string, Map<string, Durations[]>>();
    const add = (method: string, status: number, lane: string): Durations => {
      const labels = { method, route, status: `${status}xx`, ...(lane !== '' && { lane }) };
      const durations = { labels, counts: new Array<number>(bounds.length + 1).fill(0), sum: 0 };
      all.push(durations);
      const ofMethod = known.get(method) ?? new Map<string, Durations[]>();
      known.set(method, ofMethod);
      const ofLane = ofMethod.get(lane) ?? [];
      ofMethod.set(lane, ofLane);
      ofLane[status] = durations;
      return durations;
    };
    return ({ method: sent, trace }: FastifyRequest, reply: FastifyReply): void => {
      const method = methods.includes(sent) ? sent : 'other';
      const lane = trace?.lane ?? '';
      const status = Math.trunc(reply.statusCode / 100);
      const durations = known.get(method)?.get(lane)?.[status] ?? add(method, status, lane);
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
  // Addresses that no route has are one.
  const countUnknown = counterOf('unknown');
  app.addHook('onResponse', (request, reply, done) => {
    if (request.is404) countUnknown(request, reply);
    done();
  });
  return () => ({ ...requestDurations, aggregator: 'sum', values: all.flatMap(valuesOf) });
}

function valuesOf({ labels, counts, sum }: Durations): FamilyValues['values'] {
  let count = 0;
  const buckets = counts.map((each, index) => {
    count += each;
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
