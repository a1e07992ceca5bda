/** A metric family, as defined by Prometheus. */
export interface Family {
  readonly type: 'counter' | 'gauge';
  readonly help: string;
}

/** Metrics of a module. */
export interface Metrics {
  /** Families by name. Several modules can report values for the same family if their labels differ. */
  readonly families: Readonly<Record<string, Family>>;
  /**
   * Whether the metrics describe the whole instance. If so, a single process reports them. Otherwise, the values of all
   * processes are added up.
   */
  readonly ofInstance: boolean;
  /** Reports the current values. If the function throws, the values are omitted. */
  readonly read: (report: ReportValue) => void | Promise<void>;
}

/**
 * Reports a value for a family.
 * @param labels must have few distinct values, so they must not contain caller input or an organization's name or ID
 */
type ReportValue = (name: string, value: number, labels?: Readonly<Record<string, string>>) => unknown;
