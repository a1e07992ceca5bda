// Causes faults in a service under load and in its database, and checks the outcome.

import { type Environment, type Service, serve, until } from './process.ts';
import { type Findings, type Load, startLoad } from './write-log.ts';

/** A service under load. */
export interface World {
  readonly load: Load;
  readonly service: () => Service;
  /** Runs work during which no write is expected to succeed. */
  readonly lasting: <T>(work: () => Promise<T>) => Promise<T>;
  /** Restarts the service after it has stopped. */
  readonly restart: () => Promise<void>;
}

/** A fault and how to cause it. */
export interface Fault {
  /** Causes the fault, then ends it. */
  readonly strike: (world: World) => Promise<void>;
  /** Number of repetitions. */
  readonly rounds: number;
  /**
   * Maximum number of acknowledged writes before each fault. The same number of writes follows the last
   * fault.
   */
  readonly writes: number;
}

/** Outcome of a fault. */
export interface Outcome extends Findings {
  /** Longest time without an acknowledged write, not counting the fault itself. */
  readonly longestOutageMs: number;
}

const clients = 8;

/** Injects a fault into a working service and compares the stored records with the acknowledged writes. */
export async function runFault(
  { strike, rounds, writes }: Fault,
  environment: Environment,
): Promise<Outcome> {
  let service = await serve(environment);
  const key = String(service.printed.key);
  const load = startLoad(() => ({ url: service.url, key }), clients);
  const faults: [from: number, to: number][] = [];
  const world: World = {
    load,
    service: () => service,
    lasting: async (work) => {
      const from = performance.now();
      try {
        return await work();
      } finally {
        faults.push([from, performance.now()]);
      }
    },
    restart: async () => {
      service = await serve(environment);
    },
  };
  try {
    const acknowledge = (count: number) => {
      const enough = load.acknowledged() + count;
      return until(() => load.acknowledged() >= enough, `acknowledge ${count} writes`);
    };
    for (let round = 0; round < rounds; round++) {
      await acknowledge(1 + Math.floor(Math.random() * writes));
      await strike(world);
    }
    await acknowledge(writes);
    await load.stop();
    const gaps = load.gaps();
    // Data stored after the first start must still be stored after the second.
    await service.kill();
    await world.restart();
    const findings = await load.check(service, key);
    return { ...findings, longestOutageMs: Math.max(0, ...gaps.map((gap) => beyond(gap, faults))) };
  } finally {
    await load.stop();
    await service.kill();
  }
}

/** Returns the duration of the part of a gap that is outside the faults, in milliseconds. */
function beyond(
  [from, to]: readonly [number, number],
  faults: readonly (readonly [number, number])[],
): number {
  const inside = faults.map(([begin, end]) => Math.max(0, Math.min(to, end) - Math.max(from, begin)));
  return to - from - inside.reduce((sum, part) => sum + part, 0);
}
