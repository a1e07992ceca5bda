import { randomBytes } from 'node:crypto';
import { sql } from 'kysely';
import { clusterSetting, type Database } from '../../engine/database/index.ts';
import { type Tables, tablesOf, transaction } from '../../engine/tables/index.ts';

/**
 * SQL expression for a string that identifies the database. The string changes when the database is restored
 * or moved, or when a replica is promoted, because transaction IDs then restart or some transactions are
 * missing.
 */
export const sourceSql = `(select system_identifier from pg_control_system())::text || '.' || (select oid from pg_database where datname = current_database())::text || '.' || '"crm_ledger_epochs"'::regclass::oid::text || '.' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8) || coalesce((select '.' || setting from pg_db_role_setting, unnest(setconfig) setting where setrole = 0 and setdatabase = (select oid from pg_database where datname = current_database()) and starts_with(setting, '${clusterSetting}=')), '')`;

/** Value of `source` for epochs during which changes are not recorded. */
const notRecorded = 'off';

/** Advisory lock key. Other programs are unlikely to use it in the same database. */
const lockKey = 7_263_140_561n;

/**
 * Starts a new epoch, which invalidates earlier cursors, if the current epoch belongs to another database or the change
 * log has a gap.
 * @param isRecorded whether changes are recorded
 */
export async function ensureEpoch(database: Database, isRecorded: boolean): Promise<void> {
  const source = sourceOf(isRecorded);
  if (await isCurrent(tablesOf(database), source)) return;
  await transaction(database, async (tables) => {
    await sql`select pg_advisory_xact_lock(${sql.lit(lockKey)})`.execute(tables);
    if (await isCurrent(tables, source)) return;
    await startEpoch(tables, source);
  });
}

/** Starts a new epoch unconditionally, for a database that was just restored. Invalidates earlier cursors. */
export const renewEpoch = (tables: Tables, isRecorded: boolean): Promise<void> =>
  startEpoch(tables, sourceOf(isRecorded));

const sourceOf = (isRecorded: boolean): Source =>
  isRecorded ? sql.raw<string>(sourceSql) : sql.lit(notRecorded);

type Source = ReturnType<typeof sql.lit> | ReturnType<typeof sql.raw<string>>;

async function isCurrent(tables: Tables, source: Source): Promise<boolean> {
  const epoch = await tables
    .selectFrom('crm_ledger_epochs')
    .select(({ eb }) => eb('source', '=', source as never).as('same'))
    .orderBy('id', 'desc')
    .limit(1)
    .executeTakeFirst();
  return epoch?.same === true;
}

async function startEpoch(tables: Tables, source: Source): Promise<void> {
  await sql`insert into crm_ledger_epochs (epoch, source) values (${randomBytes(9).toString('base64url')}, ${source})`.execute(
    tables,
  );
  // Rows from another server can have higher transaction IDs than this server assigns, which would hide them from the
  // feed.
  await sql`set local statement_timeout = 0`.execute(tables);
  const organizations = await tables.selectFrom('crm_organizations').select('id').execute();
  for (const { id } of organizations) {
    await sql`update crm_ledger set transaction = '0' where organization_id = ${id}::bigint and transaction >= pg_snapshot_xmax(pg_current_snapshot())`.execute(
      tables,
    );
  }
}
