import {
  type Database,
  type DatabaseConfig,
  exclusively,
  openDatabase,
  violatedConstraint,
} from '../database/index.ts';
import { UserError } from '../errors.ts';
import { entitiesOf, type Model } from './model.ts';

/** Any number that no other program on the same database is likely to use. */
const migrationLock = 7_263_140_559n;

/**
 * Applies the pending migrations. Nodes that start together wait for each other, and each
 * migration is applied once; all of a run are applied or none.
 * @returns the names of those applied
 */
export async function migrate(config: DatabaseConfig, model: Model): Promise<string[]> {
  const database = await openDatabase(
    { ...config, statementTimeoutMs: 0, pool: 2, replicaAddresses: [] },
    entitiesOf(model),
  );
  try {
    return await applyPending(database);
  } finally {
    await database.close();
  }
}

/**
 * As {@link migrate}, on a database that is open already.
 * @throws UserError when a field becomes unique and records have the same values of it; then nothing is applied
 */
export const applyPending = (database: Database): Promise<string[]> =>
  apply(database).catch((cause: unknown) => {
    throw duplicatesIn(cause) ?? cause;
  });

/** The error for records that stand in the way of a unique index, with an example of their values. */
function duplicatesIn(cause: unknown): UserError | undefined {
  if (typeof cause !== 'object' || cause === null) return undefined;
  const { detail, cause: inner } = cause as { detail?: unknown; cause?: unknown };
  const index = violatedConstraint(cause);
  if (index === undefined || typeof detail !== 'string') return duplicatesIn(inner);
  const values = detail.slice(detail.indexOf(')=(') + 2).replace(/\s+/g, ' ');
  return new UserError(
    `the unique index "${index}" cannot be made, because records have the same values: (organization, …)=${values} Nothing was migrated. Change or delete these records, then migrate again`,
  );
}

async function apply({ kind, orm }: Database): Promise<string[]> {
  const names = (migrations: readonly { name: string }[]) => migrations.map(({ name }) => name);
  if (kind === 'embedded') return names(await orm.migrator.up());
  return exclusively(orm, migrationLock, async (em) => {
    const transaction = em.getTransactionContext();
    const set = (setting: string) =>
      em.getConnection().execute(`set local ${setting}`, [], 'run', transaction);
    // A migration may run for any time, but not wait long for a lock: all other statements would queue behind it.
    await set('statement_timeout = 0');
    await set('idle_in_transaction_session_timeout = 0');
    await set('lock_timeout = 3000');
    return names(await orm.migrator.up({ transaction }));
  });
}

/**
 * Whether the database has every migration.
 * @throws UserError with the command to run
 */
export async function assertUpToDate({ orm }: Database): Promise<void> {
  const pending = await orm.migrator.getPending();
  if (pending.length > 0) {
    const names = pending.map((migration) => migration.name).join(', ');
    throw new UserError(
      `the database is behind by ${pending.length} migration(s): ${names}. Run "npm run crm -- migrate", or start with MIGRATE_ON_START=true`,
    );
  }
}
