import pLimit from 'p-limit';
import type { Script, SimulatedEvent, StepResult } from './script.ts';

/** The address and the secret of deliveries. */
export interface Target {
  /** The address to call. */
  readonly url: string;
  /** The address as the provider knows it, which some sign. */
  readonly publicUrl: string;
  readonly secret: string;
}

/** The steps of a run, in this order. */
export const stepNames = ['good', 'duplicate', 'out-of-order', 'large', 'bad-signature', 'burst'] as const;
export type StepName = (typeof stepNames)[number];

/** The outcome of a run: the results of its steps, and the events that should have arrived. */
export interface SimulationResult {
  readonly results: readonly StepResult[];
  /** The service's ids of the events. */
  readonly eventIds: readonly string[];
}

const concurrency = 20;
const timeoutMs = 30_000;

/** Sends the chosen steps to a target. */
export async function simulate(
  script: Script,
  target: Target,
  { steps, burst }: { readonly steps: readonly StepName[]; readonly burst: number },
): Promise<SimulationResult> {
  const run = Date.now() * 1000;
  const event = (number: number, text = `Simulated message ${number}.`): SimulatedEvent => ({
    id: String(run + number),
    text,
  });
  const large = event(4, 'x'.repeat(script.large.bytes));
  const wrong = { ...target, secret: `not ${target.secret}` };
  const deliver = (to: Target, sent: SimulatedEvent) => () => send(script, to, sent);
  const plans: Readonly<Record<StepName, { calls: (() => Promise<Sent>)[]; arrive: SimulatedEvent[] }>> = {
    good: { calls: [deliver(target, event(1))], arrive: [event(1)] },
    duplicate: { calls: [deliver(target, event(1)), deliver(target, event(1))], arrive: [event(1)] },
    'out-of-order': {
      calls: [deliver(target, event(3)), deliver(target, event(2))],
      arrive: [event(3), event(2)],
    },
    large: {
      calls: [deliver(target, large)],
      arrive: script.large.taken ? [large] : [],
    },
    'bad-signature': { calls: [deliver(wrong, event(5))], arrive: [] },
    burst: {
      calls: Array.from({ length: burst }, (_, index) => deliver(target, event(10 + index))),
      arrive: Array.from({ length: burst }, (_, index) => event(10 + index)),
    },
  };
  const results: StepResult[] = [];
  const ids = new Set<string>();
  for (const step of stepNames.filter((name) => steps.includes(name))) {
    const { calls, arrive } = plans[step];
    const limited = pLimit(step === 'burst' ? concurrency : 1);
    results.push(summary(step, await Promise.all(calls.map((call) => limited(call)))));
    for (const each of arrive) ids.add(script.eventId(each));
  }
  return { results, eventIds: [...ids] };
}

/** A delivery: the response's status, or why there was none, and its time. */
interface Sent {
  readonly result: string;
  readonly ms: number;
}

async function send(script: Script, target: Target, event: SimulatedEvent): Promise<Sent> {
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
    (cause: Error) => (cause.name === 'TimeoutError' ? 'no answer in time' : 'no connection'),
  );
  return { result, ms: performance.now() - start };
}

function summary(step: string, sent: readonly Sent[]): StepResult {
  const answers: Record<string, number> = {};
  for (const { result } of sent) answers[result] = (answers[result] ?? 0) + 1;
  const times = sent.map(({ ms }) => ms).sort((a, b) => a - b);
  const at = (share: number) =>
    Math.round((times[Math.min(times.length - 1, Math.floor(times.length * share))] ?? 0) * 10) / 10;
  return { step, sent: sent.length, answers, p50_ms: at(0.5), p99_ms: at(0.99) };
}
