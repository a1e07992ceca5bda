import { sqlState, violatedConstraint } from '../database/index.ts';
import { UserError } from '../errors.ts';
import { guardSqlState } from './conversion-checks.ts';

/** Characters of a statement that a message repeats. */
const maxStatement = 200;
export const nothingMigrated = 'Nothing was migrated.';
export const partlyMigrated = 'All but this is applied; the next run goes on with it.';

/** Why a migration failed, in words; undefined if the database did not refuse a statement. */
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
      `the unique index "${index}" cannot be made, because records have the same values. ${applied} Change or delete these records, then migrate again (${file})`,
      { cause },
    );
  }
  // The detail, and what is quoted of wrong data, are values of records, which may be sensitive.
  const [line = ''] = String(message).split('\n');
  const why = state.startsWith('22') ? (line.split(/: "/)[0] ?? '') : line;
  if (state === guardSqlState) {
    const name = why.split(' ')[0];
    const again =
      applied === nothingMigrated
        ? `, or write ${file} again with --using ${name}=…, SQL of a text for them`
        : '';
    return new UserError(
      `${why}. ${applied} Change these records${again}${again === '' ? ', then migrate again' : ''}`,
      { cause },
    );
  }
  const shown = statement.replace(/\s+/g, ' ').replace(/;$/, '').slice(0, maxStatement);
  return new UserError(
    `${file} failed: ${why}. In: ${shown}. ${applied} Mend what stands in its way, then migrate again`,
    { cause },
  );
}
