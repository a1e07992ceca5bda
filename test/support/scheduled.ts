// Test support: the private parts of a database.
import type { Database } from '../../engine/database/database.ts';
import type { scheduleOn } from '../../engine/database/scheduler.ts';

/** Returns a database with the parts that it hides from its callers. */
export const partsOf = (database: Database) => database as ReturnType<typeof scheduleOn>;
