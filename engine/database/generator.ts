import { TSMigrationGenerator } from '@mikro-orm/migrations';
import { UserError } from '../errors.ts';

// What destroys stored values: a dropped table or column, or a column of another type.
const lossy = /\bdrop table\b|\bdrop column\b|\balter column "[^"]+" type\b/i;

/** Writes migrations that only go forward: going back would drop what was stored since. */
export class ForwardGenerator extends TSMigrationGenerator {
  override generateMigrationFile(className: string, diff: { up: string[]; down: string[] }): string {
    return super.generateMigrationFile(className, { up: diff.up, down: [] });
  }
}

/** The same, but refuses what would lose data, before anything is written. */
export class LosslessGenerator extends ForwardGenerator {
  /** @throws UserError listing the statements that would lose data */
  override generateMigrationFile(className: string, diff: { up: string[]; down: string[] }): string {
    const losing = diff.up.filter((statement) => lossy.test(statement));
    if (losing.length > 0) {
      throw new UserError(
        `this change would lose stored data:\n${losing.map((statement) => `  ${statement}`).join('\n')}\nNothing was written. Add --allow-data-loss to write the migration all the same`,
      );
    }
    return super.generateMigrationFile(className, diff);
  }
}
