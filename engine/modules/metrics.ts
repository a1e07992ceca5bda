/** Something that operators watch, as Prometheus names and describes it. */
export interface Family {
  readonly type: 'counter' | 'gauge';
  readonly help: string;
}

/** Numbers that operators watch. */
export interface Metrics {
  /** By name. Several of these may have the same family, with values of other labels. */
  readonly families: Readonly<Record<string, Family>>;
  /**
   * Whether they are about the instance, so that one of its processes is asked; otherwise those of all are added up.
   */
  readonly ofInstance: boolean;
  /** Tells the values of this moment. What it throws leaves them out. */
  readonly read: (tell: ReportValue) => void | Promise<void>;
}

/**
 * Takes one value of a family.
 * @param labels few values each: never what a caller sends, and no name or id of an organization
 */
export type ReportValue = (name: string, value: number, labels?: Readonly<Record<string, string>>) => unknown;
