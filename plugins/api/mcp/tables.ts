import type { Generated } from 'kysely';
import {
  bigintColumn,
  defineTable,
  identity,
  integerColumn,
  link,
  now,
  tenant,
  tenantLink,
  textColumn,
  timestampColumn,
} from '../../../engine/tables/index.ts';

/** The stored state of a proposal. A pending one that has expired is not changed. */
export type ProposalStatus = 'pending' | 'approved' | 'rejected' | 'outdated';

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
    crm_proposals: {
      organization_id: string;
      id: Generated<string>;
      /** The key that proposes the write. */
      key_id: string;
      tool: string;
      resource: string;
      /** ID of the record; null for an action of the collection, and for a new record until it is created. */
      record_id: string | null;
      /** The action's name; empty for other tools. */
      action: string;
      /** The values or the action's input, as JSON. */
      body: string;
      /** The record's entity tag as the key saw it; empty if the write does not depend on the record's version. */
      tag: string;
      /** The run that the call names, without its signature; null if the call does not name one. */
      run: string | null;
      idempotency_key: string | null;
      status: Generated<ProposalStatus>;
      /** Why the proposal was rejected. */
      reason: Generated<string>;
      created_at: Generated<Date>;
      /** When a pending proposal can no longer be approved. */
      expires_at: Date;
      /** The user who decided; null until then, and if a changed record made the proposal outdated. */
      decided_by_id: string | null;
      decided_at: Date | null;
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

const proposals = defineTable(
  'crm_proposals',
  {
    ...tenant(),
    id: identity,
    ...tenantLink('crm_proposals', 'key', 'crm_api_keys', { deleteRule: 'cascade' }),
    tool: textColumn,
    resource: textColumn,
    record_id: { ...bigintColumn, nullable: true },
    action: textColumn,
    body: textColumn,
    tag: textColumn,
    run: { ...textColumn, nullable: true },
    idempotency_key: { ...textColumn, nullable: true },
    status: { ...textColumn, defaultRaw: "'pending'" },
    reason: { ...textColumn, defaultRaw: "''" },
    created_at: now,
    expires_at: timestampColumn,
    ...link('decided_by_id', 'crm_users', { nullable: true, deleteRule: 'set null' }),
    decided_at: { ...timestampColumn, nullable: true },
  },
  {
    indexes: [
      { name: 'crm_proposals_pending', keys: ['"organization_id"', '"id"'], where: `"status" = 'pending'` },
      {
        name: 'crm_proposals_idempotency',
        keys: ['"organization_id"', '"key_id"', '"idempotency_key"'],
        where: '"idempotency_key" is not null',
        kind: 'unique',
      },
      { name: 'crm_proposals_expires', properties: ['expires_at'] },
    ],
    resourceColumns: ['resource'],
    personalData: { label: 'proposals of agents', columns: ['body', 'reason'], erasure: 'delete' },
    // The retention deletes the proposals of all organizations.
    placement: 'coordinator',
  },
);

/** The tables of calls with which agents read or wrote records, and of writes that agents propose. */
export const agentTables = [calls, proposals];
