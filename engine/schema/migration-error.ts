import { sqlState, violatedConstraint } from '../database/index.ts';
import { UserError } from '../errors.ts';
import { guardSqlState } from './conversion-checks.ts';

/** Maximum characters of a statement in a message. */
const maxStatement = 200;
export const nothingMigrated = 'Nothing was migrated.';
export const partlyMigrated = 'Everything else is applied; the next run continues from here.';

/** Describes why a migration failed, or returns undefined if the error is not from the database. */
export function migrationError(
  cause: unknown,
  file: string,
  statement: string,
  applied = nothingMigrated,
): UserError | undefined {
  if (typeof cause !== 'object' || cause === null) return undefined;
  const { message, cause: inner } = cause as { message?: unknown; cause?: unknown };
  const state = sqlState(cause);
  if (state === undefined) return migrationError(inner, file, statement, applied);
  const index = violatedConstraint(cause);
  if (index !== undefined) {
    return new UserError(
      `cannot create the unique index "${index}", because records have duplicate values. ${applied} Change or delete these records, then migrate again (${file}).`,
      { cause },
    );
  }
  // The detail and quoted data are values of records, which can be sensitive.
  const [line = ''] = String(message).split('\n');
  const why = state.startsWith('22') ? (line.split(/: "/)[0] ?? '') : line;
  if (state === guardSqlState) {
    const name = why.split(' ')[0];
    const again =
      applied === nothingMigrated ? `, or create ${file} again with --using ${name}=… (SQL of a text)` : '';
    return new UserError(
      `${why}. ${applied} Change these records${again}${again === '' ? ', then migrate again.' : '.'}`,
      { cause },
    );
  }
  const excerpt = statement.replace(/\s+/g, ' ').replace(/;$/, '').slice(0, maxStatement);
  return new UserError(
    `${file} failed: ${why}. Statement: ${excerpt}. ${applied} Fix the cause, then migrate again.`,
    { cause },
  );
}
