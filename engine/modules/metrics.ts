/** A metric family in the sense of Prometheus. */
export interface Family {
  readonly type: 'counter' | 'gauge';
  readonly help: string;
}

/** Metrics of a module. */
export interface Metrics {
  /** Families by name. Several modules can report values of one family, with different labels. */
  readonly families: Readonly<Record<string, Family>>;
  /**
   * Whether they describe the whole instance. If so, one process reports them, otherwise the values of all processes
   * are added.
   */
  readonly ofInstance: boolean;
  /** Reports the current values. If it throws, they are omitted. */
  readonly read: (report: ReportValue) => void | Promise<void>;
}

/**
 * Reports one value of a family.
 * @param labels must have few values: never caller input, and never the name or ID of an organization
 */
export type ReportValue = (name: string, value: number, labels?: Readonly<Record<string, string>>) => unknown;
