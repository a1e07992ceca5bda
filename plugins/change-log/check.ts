import type { Database } from '../../engine/database/index.ts';
import type { AuditConfig } from '../../engine/effects/index.ts';
import type { DoctorCheck, Finding } from '../../engine/modules/index.ts';
import { lagWarningMs } from './lag.ts';

/** Returns a query for transactions that have been open for more than `ms` milliseconds. */
const longSql = (ms: number) => `
  select kind, who, round(extract(epoch from now() - since))::text from (
    select 'process' as kind, pid::text as who, xact_start as since from pg_stat_activity where backend_xid is not null
    union all
    select 'prepared', gid::text, prepared from pg_prepared_xacts
  ) t
  where since < now() - ${ms} * interval '1 ms'
  order by since`;

/**
 * Returns a finding for each transaction that has delayed the change feed for more than `ms` milliseconds.
 */
export async function feedDelay({ run }: Database, ms: number): Promise<readonly Finding[]> {
  return (await run({ name: '', text: longSql(ms), values: [] })).map(([kind, id, seconds]) => {
    const isPrepared = kind === 'prepared';
    return {
      location: isPrepared ? `prepared transaction ${id}` : `process ${id} on the database server`,
      message: `its transaction has been open for ${seconds} s and delays the change feed and event subscriptions`,
      advice: isPrepared
        ? `End it with: rollback prepared '${id}'; or commit prepared '${id}';`
        : `End it in the client that started it, or run: select pg_terminate_backend(${id});`,
    };
  });
}

/** Reports long transactions that delay the change feed. */
export const feedCheck: DoctorCheck<{ readonly config: AuditConfig; readonly database: Database }> = {
  name: 'change feed',
  needs: ['config', 'database'],
  run: ({ config, database }) =>
    !config.audit || database.kind === 'embedded' ? [] : feedDelay(database, lagWarningMs),
};
