/** A part of an instance that `crm doctor` can check. */
export type DoctorSubject = 'config' | 'settings' | 'settingsFile' | 'resources' | 'database' | 'secrets';

/** A problem or a probably unintended setting, and how to fix it. */
export interface Finding {
  /** Location: a variable, a line of a file, a folder, a table or an organization. */
  readonly place: string;
  /** Description of the problem, without a full stop. */
  readonly problem: string;
  /** How to fix it, as a sentence. */
  readonly advice: string;
  /** Set if everything works, but the setting is probably unintended. */
  readonly isNote?: true;
}

/**
 * A check of `crm doctor`. It must not change records or settings.
 * @typeParam Subject the parts of the instance that it needs
 */
export interface DoctorCheck<Subject = unknown> {
  /** Its subject in a few words, for example "time". */
  readonly name: string;
  /** Parts passed to the check. If one of them is unavailable, the check is skipped. */
  readonly needs: readonly DoctorSubject[];
  readonly run: (subject: Subject) => readonly Finding[] | Promise<readonly Finding[]>;
}
