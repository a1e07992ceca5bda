import type { Generated } from 'kysely';
import { bigint, identity, now, table, text } from '../tables/index.ts';

declare module '../tables/index.ts' {
  interface TableRows {
    crm_activity: {
      organization_id: string;
      id: Generated<string>;
      at: Generated<Date>;
      actor_kind: string;
      actor_id: string | null;
      action: string;
      object: string;
      object_id: string | null;
      request_id: string | null;
    };
  }
}

const activity = table(
  'crm_activity',
  {
    organization_id: { ...bigint, primary: true },
    id: identity,
    at: now,
    actor_kind: text,
    actor_id: { ...bigint, nullable: true },
    action: text,
    object: text,
    object_id: { ...bigint, nullable: true },
    request_id: { ...text, nullable: true },
  },
  { resourceColumns: ['object'] },
);

/** The audit log. Rows are only added, by the statement or in the transaction of the change. */
export const activityTables = [activity];
