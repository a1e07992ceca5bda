import type { Probe, Replicas } from '../../../engine/database/index.ts';

/** The parts of an instance that readiness checks. */
export interface ReadinessSubjects {
  readonly probe: Probe;
  /** Names of the migrations that this version needs. */
  readonly migrations: readonly string[];
  /** Why the last change of the configuration was refused. */
  readonly settingsProblem: () => string | undefined;
  readonly isLeaving: () => boolean;
  /** Reported, but no part of readiness: reads go to the primary without them. */
  readonly replicas?: Replicas | undefined;
}

/** The failure of each check in a few words; undefined if it passes. */
export interface Readiness {
  readonly database: string | undefined;
  readonly migrations: string | undefined;
  readonly configuration: string | undefined;
  readonly draining: string | undefined;
}

/** What a process says of itself. */
export interface ProcessReport {
  readonly checks: Readiness;
  /** The reason why each replica is excluded, or null if it is used. Absent without replicas. */
  readonly replicas?: Readonly<Record<string, string | null>>;
}

/** What the operators' port says of an instance. */
export interface ReadinessReport extends Pick<ProcessReport, 'replicas'> {
  /** The failure of each check in a few words; undefined if it passes. */
  readonly checks: Readiness & { readonly workers?: string | undefined };
  /** How many processes serve, of how many. */
  readonly workers?: { readonly serving: number; readonly of: number };
}

/** Interval between checks of the database, shared by all callers, and the limit on its response, in milliseconds. */
const intervalMs = 1000;

/** Finds out whether the instance should get requests. */
export function readinessOf({
  probe,
  migrations,
  settingsProblem,
  isLeaving,
  replicas,
}: ReadinessSubjects): () => Promise<ProcessReport> {
  let asked: { readonly at: number; readonly result: ReturnType<typeof ask> } | undefined;
  const ask = async (): Promise<Pick<Readiness, 'database' | 'migrations'>> => {
    try {
      const found = new Set(await probe.migrations(intervalMs));
      const missing = migrations.filter((name) => !found.has(name));
      return {
        database: undefined,
        migrations: missing.length === 0 ? undefined : `missing: ${missing.join(', ')}`,
      };
    } catch (cause) {
      // Only the code: the driver's text may hold addresses and names.
      const { code, message } = cause as { code?: string; message: string };
      return {
        database: code ?? (message.startsWith('no response') ? message : 'does not respond'),
        migrations: 'unknown',
      };
    }
  };
  return async () => {
    if (asked === undefined || performance.now() - asked.at > intervalMs) {
      asked = { at: performance.now(), result: ask() };
    }
    const checks = {
      ...(await asked.result),
      configuration: settingsProblem() === undefined ? undefined : 'the last change was refused; see the log',
      draining: isLeaving() ? 'stopping' : undefined,
    };
    const problems = Object.entries(replicas?.status() ?? {}).map(([name, problem = null]) => [
      name,
      problem,
    ]);
    return { checks, ...(replicas && { replicas: Object.fromEntries(problems) }) };
  };
}
