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
      /** Kind and id of an actor. */
      caller: string;
      /** When the window began that the requests belong to. */
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

/** The requests of each caller in the latest window, where they are limited: one row for each. */
export const rateLimitingTables = [requestCounts];

interface Counts {
  readonly window: Date;
  readonly taken: readonly UnstoredCounts[];
}

/** Ordered, so that two nodes never wait for each other's rows. An older window of a slow clock leaves the row as it is. */
const addCounts = prepare<Counts>(
  'request_counts',
  'write',
  ($) => `insert into "crm_request_counts" as c ("organization_id", "caller", "window_start", "requests")
    select o, k, ${$(({ window }) => window.toISOString())}::text::timestamptz, n
    from unnest(${$(({ taken }) => taken.map((each) => each.organization))}::bigint[],
      ${$(({ taken }) => taken.map((each) => each.caller))}::text[],
      ${$(({ taken }) => taken.map((each) => String(each.requests)))}::bigint[]) _t (o, k, n)
    order by o, k
    on conflict ("organization_id", "caller") do update set
      "window_start" = excluded."window_start",
      "requests" = excluded."requests"
        + case when c."window_start" = excluded."window_start" then c."requests" else 0 end
    where c."window_start" <= excluded."window_start"
    returning "organization_id"::text, "caller", "requests"::text`,
);

/** Adds requests to the counts of a window. @returns as `StoreCounts` says */
export async function storeCounts(
  database: Database,
  window: Date,
  taken: readonly UnstoredCounts[],
): Promise<readonly (number | undefined)[]> {
  const rows = await database.run(addCounts.bind({ window, taken }));
  const sums = new Map(
    rows.map(([organization, caller, requests]) => [`${organization} ${caller}`, Number(requests)]),
  );
  return taken.map(({ organization, caller }) => sums.get(`${organization} ${caller}`));
}
