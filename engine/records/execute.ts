import { type Database, databaseFailure, type Rows } from '../database/index.ts';
import { HttpError } from '../errors.ts';
import type { Statement } from '../sql/index.ts';
import type { CompiledOperation, Plan } from './operation.ts';
import { isRefusal } from './refusals.ts';

/** How often a write is tried. More than once, because what is in its way may be gone when the reason is looked for. */
const maxTries = 10;

/** The parts of an operation that say what runs. */
type Executable<P extends Plan> = Pick<
  CompiledOperation<P>,
  'statement' | 'further' | 'retryable' | 'refusal'
>;

/**
 * Runs an operation's statement when its organization's turn has come. The one place where a request for records meets
 * the database.
 * @throws HttpError 400 naming every reference that points to no record of the organization; 409 naming the unique
 *   fields that another record has the same values of; 500 when the database fails or does not respond; 503 when the
 *   turn does not come in time or the database ends the statement
 */
export async function execute<P extends Plan>(
  database: Database,
  operation: Executable<P>,
  plan: P,
  tries = 1,
): Promise<Rows> {
  const { statement, further, retryable, refusal } = operation;
  const asked = statement(plan);
  if (asked === undefined) return [];
  try {
    const rows = await inTurn(database, plan, asked).catch((cause: unknown) => {
      if (retryable?.(cause)) return inTurn(database, plan, asked);
      throw cause;
    });
    const more = further?.(plan, rows);
    return more === undefined ? rows : [...rows, ...(await inTurn(database, plan, more))];
  } catch (cause) {
    if (cause instanceof HttpError) throw cause;
    const why = isRefusal(cause) && tries < maxTries ? refusal?.statement(plan) : undefined;
    if (refusal === undefined || why === undefined) throw databaseFailure(cause);
    const rows = await inTurn(database, plan, why).catch((failure: unknown) => {
      throw failure instanceof HttpError ? failure : databaseFailure(failure);
    });
    return execute(database, operation, refusal.remaining(plan, rows), tries + 1);
  }
}

/** Short statements share connections; what has no result there, or is not taken, runs on a connection of its own. */
async function inTurn(database: Database, { organization }: Plan, statement: Statement): Promise<Rows> {
  const { admission, pipelines } = database;
  const turn = pipelines?.turn(statement, organization);
  if (pipelines !== undefined && turn !== undefined) {
    const rows = await admission.run(turn, organization, async () =>
      // While it waited, its organization may have been left to the pool.
      pipelines.turn(statement, organization) === undefined
        ? undefined
        : pipelines.run(statement, organization),
    );
    if (rows !== undefined) return rows;
  }
  return admission.run(statement.lane, organization, () => database.run(statement));
}
