import type { FastifyInstance } from 'fastify';
import type { Metrics } from '../../engine/modules/index.ts';
import type { InstanceHooks, ModuleCall } from '../../engine/records/index.ts';

/** Duration above which a call of a hook or action is logged, in seconds. */
const slowSeconds = 1;

/** Upper bounds of the histogram's buckets, in seconds. */
const bounds = [0.001, 0.01, 0.1, 1, 5, 30];

/** The calls of one hook or action with the same result. */
interface Calls {
  readonly labels: Readonly<Record<string, string>>;
  /** Number of calls up to each bound. */
  readonly buckets: number[];
  count: number;
  seconds: number;
}

const durationName = 'crm_hook_duration_seconds';

/** Measures the calls of an instance's hooks and actions. */
interface CallMeter {
  readonly metrics: Metrics;
  /** Counts a call. */
  readonly count: (call: ModuleCall) => void;
}

const meters = new WeakMap<InstanceHooks, CallMeter>();

/**
 * Returns the meter of an instance, which counts nothing if no module has hooks or actions. Its
 * labels are the hooks and actions of the instance's modules, so their number is limited.
 */
export function callMeter(hooks: InstanceHooks | undefined): CallMeter {
  if (hooks === undefined) return createMeter();
  const meter = meters.get(hooks) ?? createMeter();
  meters.set(hooks, meter);
  return meter;
}

function createMeter(): CallMeter {
  const byKey = new Map<string, Calls>();
  return {
    count: ({ module, place, result, seconds }) => {
      const key = JSON.stringify([module, place, result]);
      const calls = byKey.get(key) ?? {
        ...{ labels: { module, place, result }, buckets: bounds.map(() => 0), count: 0, seconds: 0 },
      };
      byKey.set(key, calls);
      calls.count++;
      calls.seconds += seconds;
      for (const [index, bound] of bounds.entries())
        if (seconds <= bound) calls.buckets[index] = (calls.buckets[index] ?? 0) + 1;
    },
    metrics: {
      ofInstance: false,
      families: {
        [durationName]: {
          type: 'histogram',
          help: 'Duration of calls of hooks and actions of modules, by module, place and result (completed, rejected or failed).',
        },
      },
      read: (report) => {
        for (const { labels, buckets, count, seconds } of byKey.values()) {
          for (const [index, value] of [...buckets, count].entries())
            report(durationName, value, { ...labels, le: String(bounds[index] ?? '+Inf') }, 'bucket');
          report(durationName, seconds, labels, 'sum');
          report(durationName, count, labels, 'count');
        }
      },
    },
  };
}

/** Counts calls of hooks and actions, and logs slow ones. */
export function observeCalls(app: FastifyInstance, hooks: InstanceHooks): void {
  const { count } = callMeter(hooks);
  hooks.observer.call = (call) => {
    count(call);
    if (call.seconds > slowSeconds) app.log.warn(call, 'slow hook or action');
  };
}
