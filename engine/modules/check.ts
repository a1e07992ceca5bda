/** A part of an instance that checks look at. */
export type DoctorSubject = 'config' | 'settings' | 'settingsFile' | 'resources' | 'database' | 'secrets';

/** Something that is wrong, or perhaps not meant, and how to mend it. */
export interface Finding {
  /** Where it is: a variable, a line of a file, a folder, a table, an organization. */
  readonly place: string;
  /** What is wrong, without a full stop. */
  readonly problem: string;
  /** What to do about it, as a sentence. */
  readonly advice: string;
  /** Set where everything works, and it is only perhaps not meant. */
  readonly isNote?: true;
}

/**
 * One thing that `crm doctor` looks at. It changes no record and no setting.
 * @typeParam Subject the parts of the instance that it needs
 */
export interface DoctorCheck<Subject = unknown> {
  /** What it is about, in a few words, such as "time". */
  readonly name: string;
  /** Where one of these parts cannot be had, the check is skipped. It gets no others. */
  readonly needs: readonly DoctorSubject[];
  readonly run: (subject: Subject) => readonly Finding[] | Promise<readonly Finding[]>;
}
