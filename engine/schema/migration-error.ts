import { sqlState, violatedConstraint } from '../database/index.ts';
import { UserError } from '../errors.ts';
import { singleLine } from '../tables/index.ts';
import { checkSqlState } from './changes/check.ts';

/** Maximum number of characters of a statement to include in a message. */
const maxStatement = 200;
export const nothingMigrated = 'Nothing was migrated.';
export const partlyMigrated = 'Everything else has been applied; the next run continues from here.';

/** Describes why a migration failed. Returns undefined if the error does not come from the database. */
export function migrationError(
  cause: unknown,
  file: string,
  statement: string,
  progressNote = nothingMigrated,
): UserError | undefined {
  if (typeof cause !== 'object' || cause === null) return undefined;
  const { message, cause: inner } = cause as { message?: unknown; cause?: unknown };
  const state = sqlState(cause);
  if (state === undefined) return migrationError(inner, file, statement, progressNote);
  const index = violatedConstraint(cause);
  if (index !== undefined) {
    return new UserError(
      `cannot create the unique index "${index}", because records have duplicate values. ${progressNote} Change or delete these records, then migrate again (${file}).`,
      { cause },
    );
  }
  // Omit the detail and quoted values, because record values can be sensitive.
  const [line = ''] = String(message).split('\n');
  const reason = state.startsWith('22') ? (line.split(': "')[0] ?? '') : line;
  if (state === checkSqlState) {
    const name = reason.split(' ')[0];
    const retryHint =
      progressNote === nothingMigrated
        ? `. Without a running server: delete ${file} and its .json file, and run "migrate --create" again with --using ${name}=… (an SQL text expression), or restore the previous definitions to change these records first`
        : '';
    return new UserError(`${reason}. ${progressNote} Change these records, then migrate again${retryHint}.`, {
      cause,
    });
  }
  const text = singleLine(statement);
  const excerpt = (text.endsWith(';') ? text.slice(0, -1) : text).slice(0, maxStatement);
  return new UserError(
    `${file} failed: ${reason}. Statement: ${excerpt}. ${progressNote} Fix the cause, then migrate again.`,
    { cause },
  );
}
