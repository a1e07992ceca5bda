import type { Generated } from 'kysely';
import {
  defineTable,
  identity,
  integerColumn,
  now,
  tenant,
  tenantLink,
  textColumn,
} from '../../../engine/tables/index.ts';

declare module '../../../engine/tables/index.ts' {
  interface TableRows {
    crm_agent_calls: {
      organization_id: string;
      id: Generated<string>;
      /** The API key, or the key of a connected app. */
      key_id: string;
      tool: string;
      resource: string;
      /** The run that the call names, without its signature; null if the call does not name one. */
      run: string | null;
      /** The call's request. Its changes have this ID in the change log. */
      request_id: string;
      records_read: number;
      records_written: number;
      at: Generated<Date>;
    };
  }
}

const calls = defineTable(
  'crm_agent_calls',
  {
    ...tenant(),
    id: identity,
    ...tenantLink('crm_agent_calls', 'key', 'crm_api_keys', { deleteRule: 'cascade' }),
    tool: textColumn,
    resource: textColumn,
    run: { ...textColumn, nullable: true },
    request_id: textColumn,
    records_read: integerColumn,
    records_written: integerColumn,
    at: now,
  },
  {
    indexes: [
      // Counts the records that a key has read and written today.
      { name: 'crm_agent_calls_key', properties: ['organization_id', 'key_id', 'at'] },
      { name: 'crm_agent_calls_run', keys: ['"organization_id"', '"run"'], where: '"run" is not null' },
      { name: 'crm_agent_calls_at', properties: ['at'] },
    ],
    resourceColumns: ['resource'],
    // The retention deletes the calls of all organizations.
    placement: 'coordinator',
  },
);

/** The table of calls with which agents read or wrote records. */
export const agentTables = [calls];
