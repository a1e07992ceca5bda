import type { Probe, Replicas } from '../../../engine/database/index.ts';

/** The parts of an instance that readiness checks. */
export interface ReadinessSubjects {
  readonly probe: Probe;
  /** Names of the migrations that this version needs. */
  readonly migrations: readonly string[];
  /** Returns why the last change of the configuration was rejected, or undefined. */
  readonly settingsProblem: () => string | undefined;
  readonly isLeaving: () => boolean;
  /** Reported, but not part of readiness, because reads can go to the primary. */
  readonly replicas?: Replicas | undefined;
}

/** The failure of each check in a few words; undefined if it passes. */
export interface Readiness {
  readonly database: string | undefined;
  readonly migrations: string | undefined;
  readonly configuration: string | undefined;
  readonly draining: string | undefined;
}

/** State of one process. */
export interface ProcessReport {
  readonly checks: Readiness;
  /** The reason why each replica is excluded, or null if it is used. Absent without replicas. */
  readonly replicas?: Readonly<Record<string, string | null>>;
}

/** State of an instance, as the admin port reports it. */
export interface ReadinessReport extends Pick<ProcessReport, 'replicas'> {
  /** The failure of each check in a few words; undefined if it passes. */
  readonly checks: Readiness & { readonly workers?: string | undefined };
  /** Number of serving processes, and of configured processes. */
  readonly workers?: { readonly serving: number; readonly of: number };
}

/** Interval between checks of the database, which all callers share, and timeout of a check, in milliseconds. */
const intervalMs = 1000;

/** Returns a function that reports whether the instance should receive requests. */
export function readinessOf({
  probe,
  migrations,
  settingsProblem,
  isLeaving,
  replicas,
}: ReadinessSubjects): () => Promise<ProcessReport> {
  let lastCheck: { readonly at: number; readonly result: ReturnType<typeof checkDatabase> } | undefined;
  const checkDatabase = async (): Promise<Pick<Readiness, 'database' | 'migrations'>> => {
    try {
      const applied = new Set(await probe.migrations(intervalMs));
      const missing = migrations.filter((name) => !applied.has(name));
      return {
        database: undefined,
        migrations: missing.length === 0 ? undefined : `missing: ${missing.join(', ')}`,
      };
    } catch (cause) {
      // Only the code, because the driver's message can contain addresses and names.
      const { code, message } = cause as { code?: string; message: string };
      return {
        database: code ?? (message.startsWith('no response') ? message : 'does not respond'),
        migrations: 'unknown',
      };
    }
  };
  return async () => {
    if (lastCheck === undefined || performance.now() - lastCheck.at > intervalMs) {
      lastCheck = { at: performance.now(), result: checkDatabase() };
    }
    const checks = {
      ...(await lastCheck.result),
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
