import type { FastifyInstance } from 'fastify';
import type { Metrics } from '../../engine/modules/index.ts';
import type { InstanceHooks, ModuleCall } from '../../engine/records/index.ts';

/** Duration above which a call of a hook or action is logged, in seconds. */
const slowSeconds = 1;

/** The calls of one hook or action with the same result. */
interface Calls {
  readonly labels: Readonly<Record<string, string>>;
  count: number;
  seconds: number;
}

const [callsName, secondsName] = ['crm_module_calls_total', 'crm_module_call_seconds_total'];

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
      const calls = byKey.get(key) ?? { labels: { module, place, result }, count: 0, seconds: 0 };
      byKey.set(key, calls);
      calls.count++;
      calls.seconds += seconds;
    },
    metrics: {
      ofInstance: false,
      families: {
        [callsName]: {
          type: 'counter',
          help: 'Calls of hooks and actions of modules, by module, place and result (completed, rejected or failed).',
        },
        [secondsName]: { type: 'counter', help: 'Duration of these calls, in seconds.' },
      },
      read: (report) => {
        for (const { labels, count, seconds } of byKey.values()) {
          report(callsName, count, labels);
          report(secondsName, seconds, labels);
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
