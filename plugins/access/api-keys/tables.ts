import type { Generated } from 'kysely';
import {
  booleanColumn,
  defineTable,
  identity,
  link,
  memberTable,
  now,
  tenant,
  tenantLink,
  textColumn,
  timestampColumn,
} from '../../../engine/tables/index.ts';

declare module '../../../engine/tables/index.ts' {
  interface TableRows {
    crm_api_keys: {
      organization_id: string;
      id: Generated<string>;
      public_id: string;
      secret_hash: string;
      last_four: string;
      name: string;
      profile_id: string;
      created_by_id: string | null;
      /** The member on whose behalf the key acts; null for an ordinary key. */
      on_behalf_of_id: string | null;
      /** The OAuth client that acts for the member; null for a key with a plaintext. */
      client_id: string | null;
      /** Whether the key itself can only read, whatever its profile grants. */
      read_only: Generated<boolean>;
      /** Whether writes of a read-only key with tools become proposals. */
      proposes: Generated<boolean>;
      created_at: Generated<Date>;
      last_used_at: Date | null;
      expires_at: Date | null;
      revoked_at: Date | null;
    };
  }
}

const apiKeys = defineTable(
  'crm_api_keys',
  {
    ...tenant(),
    id: identity,
    public_id: textColumn,
    secret_hash: textColumn,
    last_four: textColumn,
    name: textColumn,
    ...tenantLink('crm_api_keys', 'profile', 'crm_profiles', { ownColumns: ['profile_id'] }),
    // A key stays valid after its creator is removed.
    ...link('created_by_id', 'crm_users', { nullable: true, deleteRule: 'set null' }),
    // A key on behalf of a member ends with the membership, and never becomes an ordinary key.
    ...tenantLink('crm_api_keys', 'on_behalf_of', memberTable, {
      ownColumns: ['on_behalf_of_id'],
      referencedColumnNames: ['organization_id', 'user_id'],
      nullable: true,
      deleteRule: 'cascade',
    }),
    client_id: { ...textColumn, nullable: true },
    // A node of an earlier version does not know proposals. For it, a key that proposes only reads.
    read_only: { ...booleanColumn, defaultRaw: 'false' },
    proposes: { ...booleanColumn, defaultRaw: 'false' },
    created_at: now,
    last_used_at: { ...timestampColumn, nullable: true },
    expires_at: { ...timestampColumn, nullable: true },
    revoked_at: { ...timestampColumn, nullable: true },
  },
  { uniques: [{ name: 'crm_api_keys_public_id', properties: ['public_id'] }] },
);

/** API keys. Only their hashes are stored. */
export const apiKeyTables = [apiKeys];
