import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { formatTable } from '../engine/modules/command-line.ts';
import { cpuOf } from './cpu.ts';
import { median } from './load.ts';
import { residentMb, startBenchService } from './service.ts';

/** Figures for one start of the service. */
interface Start {
  /** Time from process start to the first response, and the CPU time used until then, both in seconds. */
  readonly seconds: number;
  readonly cpu: number;
  /** Resident memory after {@link idleMs}, in MB. */
  readonly resident: number;
}

/** Median figures for one kind of start, with their targets. */
export interface StartFigure extends Start {
  readonly name: string;
  readonly targetSeconds: number;
  readonly targetResident: number | undefined;
}

/** Idle time before memory is measured, in milliseconds. V8 starts to release memory after 9 seconds. */
const idleMs = 15_000;

async function start(environment: Readonly<Record<string, string>>, program?: string): Promise<Start> {
  const startedAt = performance.now();
  const service = await startBenchService(environment, [], program);
  await (await fetch(`${service.url}/api/v1/leads`)).arrayBuffer();
  const [seconds, cpu] = [(performance.now() - startedAt) / 1000, cpuOf([service.pid]) / 1e6];
  await pause(idleMs);
  const resident = residentMb(service.pid);
  await service.stop();
  return { seconds, cpu, resident };
}

/** Measures all kinds of starts alternately. @param databaseUrl an empty database */
export async function measureStarts(databaseUrl: string, rounds: number): Promise<StartFigure[]> {
  const folder = mkdtempSync(join(tmpdir(), 'crm-start-'));
  const postgres = {
    DATABASE_URL: databaseUrl,
    DATA_DIR: join(folder, 'secrets'),
    MIGRATE_ON_START: 'true',
  };
  // Builds the package in node_modules, where package imports can be resolved and Node.js does not strip
  // types.
  const cache = join(import.meta.dirname, '../node_modules/.cache');
  mkdirSync(cache, { recursive: true });
  const packageFolder = mkdtempSync(join(cache, 'bench-'));
  execFileSync(process.execPath, ['bin/build.js', packageFolder], { cwd: join(import.meta.dirname, '..') });
  const existing = { DATA_DIR: join(folder, 'existing') };
  const kinds = [
    { name: 'PostgreSQL', environment: () => postgres, targetSeconds: 1.5, targetResident: 180 },
    { name: 'embedded folder', environment: () => existing, targetSeconds: 1.5, targetResident: undefined },
    {
      name: 'new embedded folder',
      environment: (round: number) => ({ DATA_DIR: join(folder, `new-${round}`) }),
      targetSeconds: 4,
      targetResident: undefined,
    },
    {
      name: 'new embedded folder, packed package',
      environment: (round: number) => ({ DATA_DIR: join(folder, `packed-${round}`) }),
      program: join(packageFolder, 'app/main.js'),
      targetSeconds: 4,
      targetResident: undefined,
    },
  ];
  try {
    // The first start fills the database and Node's compile cache, so it is not counted.
    for (const { environment } of kinds.slice(0, 2)) await start(environment(0));
    const starts = kinds.map((): Start[] => []);
    for (let round = 0; round < rounds; round++) {
      for (const [index, { environment, program }] of kinds.entries())
        starts[index]?.push(await start(environment(round), program));
    }
    return kinds.map(({ name, targetSeconds, targetResident }, index) => {
      const medianOf = (key: keyof Start) => median((starts[index] ?? []).map((figures) => figures[key]));
      return {
        name: `start, ${name}`,
        seconds: medianOf('seconds'),
        cpu: medianOf('cpu'),
        resident: medianOf('resident'),
        targetSeconds,
        targetResident,
      };
    });
  } finally {
    for (const path of [folder, packageFolder]) rmSync(path, { recursive: true, force: true });
  }
}

const verdict = (value: number, target: number): string => (value <= target ? 'met' : 'missed');

/** Formats the figures as a table with their targets. */
export const startReport = (figures: readonly StartFigure[]): string =>
  formatTable(
    ['', 'first response s', 'target', '', 'CPU s', 'resident MB, idle', 'target', ''],
    figures.map(({ name, seconds, cpu, resident, targetSeconds, targetResident }) => [
      name,
      seconds.toFixed(2),
      `≤ ${targetSeconds}`,
      verdict(seconds, targetSeconds),
      cpu.toFixed(2),
      resident.toFixed(0),
      targetResident === undefined ? '' : `≤ ${targetResident}`,
      targetResident === undefined ? '' : verdict(resident, targetResident),
    ]),
  );
