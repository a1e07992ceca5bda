import type { DatabaseStatus, Probe } from '../../../engine/database/index.ts';

/** The parts of an instance that determine its readiness. */
interface ReadinessSubjects {
  readonly probe: Probe;
  /** Names of the migrations that this version requires. */
  readonly migrations: readonly string[];
  /** Returns the reason the last change to config.yaml was rejected, or undefined if it is in effect. */
  readonly settingsProblem: () => string | undefined;
  readonly isDraining: () => boolean;
  /** The state of replicas is reported but does not affect readiness, because reads can use the primary. */
  readonly replicas?: () => DatabaseStatus['replicas'];
}

/** The reason each check failed, in a few words, or undefined if the check passed. */
interface Readiness {
  readonly database: string | undefined;
  readonly migrations: string | undefined;
  readonly configuration: string | undefined;
  readonly draining: string | undefined;
}

/** The state of one process. */
export interface ProcessReport {
  readonly checks: Readiness;
  /**
   * The reason each replica is excluded, or null if the replica is used. Absent if no replicas are
   * configured.
   */
  readonly replicas?: Readonly<Record<string, string | null>>;
}

/** The state of an instance, as reported by the admin port. */
export interface ReadinessReport extends Pick<ProcessReport, 'replicas'> {
  /** The reason each check failed, in a few words, or undefined if the check passed. */
  readonly checks: Readiness & { readonly workers?: string | undefined };
  /** Number of processes that are serving, and number of configured processes. */
  readonly workers?: { readonly serving: number; readonly of: number };
}

/** Interval between database checks, which all callers share, and timeout for a check, in milliseconds. */
const intervalMs = 1000;

/** Returns a function that reports whether this process should receive requests. */
export function readinessOf({
  probe,
  migrations,
  settingsProblem,
  isDraining,
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
      // Only the code is reported, because the driver's message can contain addresses and names.
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
      configuration:
        settingsProblem() === undefined ? undefined : 'the last change was rejected; see the log',
      draining: isDraining() ? 'stopping' : undefined,
    };
    const status = replicas?.();
    const problems = Object.entries(status ?? {}).map(([name, problem = null]) => [name, problem]);
    return { checks, ...(status && { replicas: Object.fromEntries(problems) }) };
  };
}
