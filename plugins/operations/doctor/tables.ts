import type { Database } from '../../../engine/database/index.ts';
import type { DoctorCheck } from '../../../engine/modules/index.ts';

type OnDatabase = DoctorCheck<{ readonly database: Database }>;

/** Limits above which outdated statistics matter: table size in pages, and number of changed rows. */
const [minPages, minRows] = [16, 1000];

/**
 * Lists tables that have never been analyzed, or in which more rows have changed since the last analysis than
 * the table contains.
 */
const staleSql = `
  select c.relname::text, (c.reltuples < 0)::text
  from pg_class c
  where c.relkind = 'r' and c.relnamespace = current_schema()::regnamespace
    and (
      c.reltuples < 0 and pg_relation_size(c.oid) > ${minPages} * current_setting('block_size')::bigint
      or pg_stat_get_mod_since_analyze(c.oid) > greatest(${minRows}, c.reltuples)
    )
  order by 1`;

const statistics: OnDatabase = {
  name: 'statistics',
  needs: ['database'],
  run: async ({ database: { run } }) =>
    (await run({ name: '', text: staleSql, values: [] })).map(([table, isNever]) => ({
      location: `table ${table}`,
      message:
        isNever === 'true'
          ? 'it was never analyzed, so its queries are planned without statistics'
          : 'most of it has changed since it was analyzed, so its queries are planned with outdated statistics',
      advice: `Run: analyze "${table}" (a running server does this if its role owns the table).`,
    })),
};

const invalidSql = `
  select c.relname::text, i.indexrelid::regclass::text
  from pg_index i join pg_class c on c.oid = i.indrelid
  where not i.indisvalid and c.relnamespace = current_schema()::regnamespace
  order by 1, 2`;

const indexes: OnDatabase = {
  name: 'indexes',
  needs: ['database'],
  run: async ({ database: { run } }) =>
    (await run({ name: '', text: invalidSql, values: [] })).map(([table, index]) => ({
      location: `index ${index}`,
      message: `it is invalid, so queries on "${table}" cannot use it, and a unique index does not reject duplicates`,
      advice: `If a migration was interrupted, run "crm migrate". Otherwise, run: reindex index concurrently ${index};`,
    })),
};

/** Checks for the database's tables and indexes. */
export const tableChecks = [statistics, indexes];
