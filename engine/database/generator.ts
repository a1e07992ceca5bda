import { TSMigrationGenerator } from '@mikro-orm/migrations';
import { UserError } from '../errors.ts';

// Statements that destroy stored values: a dropped table or column, or a changed column type.
const lossy = /\bdrop table\b|\bdrop column\b|\balter column "[^"]+" type\b/i;

/** Writes migrations without a way down: going back would drop values stored since. */
export class ForwardGenerator extends TSMigrationGenerator {
  override generateMigrationFile(className: string, diff: { up: string[]; down: string[] }): string {
    return super.generateMigrationFile(className, { up: diff.up, down: [] });
  }
}

/** The same, but refuses to write a migration that would lose data. */
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
