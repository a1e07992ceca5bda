import type { Statement } from '../compile/index.ts';
import {
  type Database,
  databaseFailure,
  foreignKeyViolation,
  type Rows,
  sqlState,
} from '../database/index.ts';
import { errors } from '../errors.ts';
import type { WritePlan } from './plan.ts';
import { missingReferencesStatement } from './statement.ts';

/**
 * Runs a statement. The one place where a request meets the database.
 * @throws HttpError 500 when the database fails or does not answer
 */
export async function execute({ run }: Database, statement: Statement): Promise<Rows> {
  try {
    return await run(statement);
  } catch (cause) {
    throw databaseFailure(cause);
  }
}

/**
 * Runs a POST or PUT.
 * @throws HttpError 400 naming every reference that points to no record of the organization; 500 as {@link execute}
 */
export async function executeWrite(database: Database, plan: WritePlan, statement: Statement): Promise<Rows> {
  try {
    return await database.run(statement);
  } catch (cause) {
    const check = plan.resource.statements.missingReferences;
    if (check === undefined || sqlState(cause) !== foreignKeyViolation) throw databaseFailure(cause);
    const [row = []] = await execute(database, missingReferencesStatement(check, plan));
    const missing = plan.resource.references.filter((_, index) => row[index] === 'true');
    if (missing.length === 0) throw databaseFailure(cause);
    // One text for a missing record and another organization's.
    throw errors.invalidFields(
      missing.map(({ field }) => ({ field, message: `${field} refers to a record that does not exist` })),
    );
  }
}
