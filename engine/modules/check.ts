/** A part of an instance that `crm doctor` can check. */
export type DoctorSubject = 'config' | 'settings' | 'settingsFile' | 'resources' | 'database' | 'secrets';

/** A problem or a setting that is probably unintended, and how to fix it. */
export interface Finding {
  /** Location: a variable, a line of a file, a folder, a table or an organization. */
  readonly location: string;
  /** Description of the problem, without a full stop. */
  readonly message: string;
  /** A sentence that says how to fix the problem. */
  readonly advice: string;
  /** Set if everything works but the setting is probably unintended. */
  readonly isNote?: true;
}

/**
 * A check for `crm doctor`. It must not change records or settings.
 * @typeParam Subject the parts of the instance that the check needs
 */
export interface DoctorCheck<Subject = unknown> {
  /** Subject of the check in a few words, for example "time". */
  readonly name: string;
  /** Parts passed to the check. The check is skipped if any of them is unavailable. */
  readonly needs: readonly DoctorSubject[];
  readonly run: (subject: Subject) => readonly Finding[] | Promise<readonly Finding[]>;
}
