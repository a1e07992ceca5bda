import type { Database } from '../../../engine/database/index.ts';
import { prepare } from '../../../engine/sql/index.ts';
import {
  bigintColumn,
  defineTable,
  tenant,
  textColumn,
  timestampColumn,
} from '../../../engine/tables/index.ts';
import type { UnstoredCounts } from './request-counts.ts';

declare module '../../../engine/tables/index.ts' {
  interface TableRows {
    crm_request_counts: {
      organization_id: string;
      /** Kind and ID of the calling actor. */
      caller: string;
      /** Start of the window. */
      window_start: Date;
      requests: string;
    };
  }
}

const requestCounts = defineTable(
  'crm_request_counts',
  {
    ...tenant(),
    caller: { ...textColumn, primary: true },
    window_start: timestampColumn,
    requests: bigintColumn,
  },
  { placement: 'coordinator' },
);

/**
 * Table of request counts, with one row for each caller's latest window. Empty if requests are not limited.
 */
export const rateLimitingTables = [requestCounts];

interface Counts {
  readonly window: Date;
  readonly batch: readonly UnstoredCounts[];
}

/**
 * The rows are sorted, so that two nodes cannot deadlock. Counts for an older window, sent by a node whose
 * clock is behind, do not change the row.
 */
const addCounts = prepare<Counts>(
  'request_counts',
  'write',
  ($) => `insert into "crm_request_counts" as c ("organization_id", "caller", "window_start", "requests")
    select o, k, ${$(({ window }) => window.toISOString())}::text::timestamptz, n
    from unnest(${$(({ batch }) => batch.map((count) => count.organization))}::bigint[],
      ${$(({ batch }) => batch.map((count) => count.caller))}::text[],
      ${$(({ batch }) => batch.map((count) => String(count.requests)))}::bigint[]) _t (o, k, n)
    order by o, k
    on conflict ("organization_id", "caller") do update set
      "window_start" = excluded."window_start",
      "requests" = excluded."requests"
        + case when c."window_start" = excluded."window_start" then c."requests" else 0 end
    where c."window_start" <= excluded."window_start"
    returning "organization_id"::text, "caller", "requests"::text`,
);

/** Adds requests to a window's counts. @returns the new counts, as described for `StoreCounts` */
export async function storeCounts(
  database: Database,
  window: Date,
  batch: readonly UnstoredCounts[],
): Promise<readonly (number | undefined)[]> {
  const rows = await database.run(addCounts.bind({ window, batch }));
  const sums = new Map(
    rows.map(([organization, caller, requests]) => [`${organization} ${caller}`, Number(requests)]),
  );
  return batch.map(({ organization, caller }) => sums.get(`${organization} ${caller}`));
}
