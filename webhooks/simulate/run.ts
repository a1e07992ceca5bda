import pLimit from 'p-limit';
import type { SimulatedEvent } from '../channels/index.ts';
import type { Script, StepResult } from './partners.ts';

/** An endpoint's URL and secret. */
export interface SimulationTarget {
  /** The URL to call. */
  readonly url: string;
  /** The URL configured at the provider, which some providers sign. */
  readonly publicUrl: string;
  readonly secret: string;
}

/** A run's steps, in order. */
export const stepNames = ['good', 'duplicate', 'out-of-order', 'large', 'bad-signature', 'burst'] as const;
export type StepName = (typeof stepNames)[number];

/** Outcome of a run: the step results, and the events expected to be stored. */
export interface SimulationResult {
  readonly results: readonly StepResult[];
  /** Event IDs in the form that the service stores. */
  readonly eventIds: readonly string[];
}

const concurrency = 20;
const timeoutMs = 30_000;

/** Runs a simulation's steps against a target. */
export async function simulate(
  script: Script,
  target: SimulationTarget,
  { steps, burst }: { readonly steps: readonly StepName[]; readonly burst: number },
): Promise<SimulationResult> {
  const run = Date.now() * 1000;
  const event = (number: number, text = `Simulated message ${number}.`): SimulatedEvent => ({
    id: String(run + number),
    text,
  });
  const large = event(4, 'x'.repeat(script.large.bytes));
  const wrongTarget = { ...target, secret: `not ${target.secret}` };
  const deliver = (to: SimulationTarget, simulatedEvent: SimulatedEvent) => () =>
    send(script, to, simulatedEvent);
  const plans: Readonly<
    Record<StepName, { calls: (() => Promise<DeliveryResult>)[]; expected: SimulatedEvent[] }>
  > = {
    good: { calls: [deliver(target, event(1))], expected: [event(1)] },
    duplicate: { calls: [deliver(target, event(1)), deliver(target, event(1))], expected: [event(1)] },
    'out-of-order': {
      calls: [deliver(target, event(3)), deliver(target, event(2))],
      expected: [event(3), event(2)],
    },
    large: {
      calls: [deliver(target, large)],
      expected: script.large.isAccepted ? [large] : [],
    },
    'bad-signature': { calls: [deliver(wrongTarget, event(5))], expected: [] },
    burst: {
      calls: Array.from({ length: burst }, (_, index) => deliver(target, event(10 + index))),
      expected: Array.from({ length: burst }, (_, index) => event(10 + index)),
    },
  };
  const results: StepResult[] = [];
  const ids = new Set<string>();
  for (const step of stepNames.filter((name) => steps.includes(name))) {
    const { calls, expected } = plans[step];
    const limit = pLimit(step === 'burst' ? concurrency : 1);
    results.push(summary(step, await Promise.all(calls.map((call) => limit(call)))));
    for (const expectedEvent of expected) ids.add(script.eventId(expectedEvent));
  }
  return { results, eventIds: [...ids] };
}

/** Result of a delivery: the response status, or the reason no response was received, and the duration. */
interface DeliveryResult {
  readonly result: string;
  readonly ms: number;
}

async function send(
  script: Script,
  target: SimulationTarget,
  event: SimulatedEvent,
): Promise<DeliveryResult> {
  const body = Buffer.from(script.body(event));
  const start = performance.now();
  const result = await fetch(target.url, {
    method: 'POST',
    redirect: 'manual',
    signal: AbortSignal.timeout(timeoutMs),
    headers: {
      'content-type': script.contentType,
      ...script.sign(body, target.secret, target.publicUrl),
    },
    body,
  }).then(
    async (response) => {
      await response.arrayBuffer();
      return String(response.status);
    },
    (cause: Error) => (cause.name === 'TimeoutError' ? 'no response in time' : 'connection failed'),
  );
  return { result, ms: performance.now() - start };
}

function summary(step: string, deliveries: readonly DeliveryResult[]): StepResult {
  const answers: Record<string, number> = {};
  for (const { result } of deliveries) answers[result] = (answers[result] ?? 0) + 1;
  const times = deliveries.map(({ ms }) => ms).sort((a, b) => a - b);
  const percentile = (share: number) =>
    Math.round((times[Math.min(times.length - 1, Math.floor(times.length * share))] ?? 0) * 10) / 10;
  return { step, sent: deliveries.length, answers, p50_ms: percentile(0.5), p99_ms: percentile(0.99) };
}
