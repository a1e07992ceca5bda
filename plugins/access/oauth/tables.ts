import type { Generated } from 'kysely';
import {
  defineTable,
  now,
  tenant,
  tenantLink,
  textColumn,
  timestampColumn,
} from '../../../engine/tables/index.ts';

declare module '../../../engine/tables/index.ts' {
  interface TableRows {
    crm_connected_apps: {
      organization_id: string;
      /** The key for which the app's tokens stand. */
      key_id: string;
      redirect_uri: string;
      /** SHA-256 of the authorization code, in hex. */
      code_hash: string;
      /** PKCE code challenge (S256). */
      code_challenge: string;
      code_expires_at: Date;
      /** When the code was exchanged for tokens; null until then. */
      redeemed_at: Date | null;
      /** SHA-256 of the current refresh token, in hex; null until the code is exchanged. */
      refresh_hash: string | null;
      /** When the user's consent expires. */
      expires_at: Date;
      created_at: Generated<Date>;
    };
    crm_oauth_clients: {
      /** The client's random ID. */
      id: string;
      /** The client's own name. */
      name: string;
      /** JSON array. */
      redirect_uris: string;
      created_at: Generated<Date>;
      /** When a user last allowed the client to act for them; null until then. */
      last_used_at: Date | null;
    };
  }
}

const connectedApps = defineTable(
  'crm_connected_apps',
  {
    ...tenant(),
    ...tenantLink('crm_connected_apps', 'key', 'crm_api_keys', { primary: true, deleteRule: 'cascade' }),
    redirect_uri: textColumn,
    code_hash: textColumn,
    code_challenge: textColumn,
    code_expires_at: timestampColumn,
    redeemed_at: { ...timestampColumn, nullable: true },
    refresh_hash: { ...textColumn, nullable: true },
    expires_at: timestampColumn,
    created_at: now,
  },
  // Stored like the keys, which are read before the organization is known.
  { placement: 'everywhere' },
);

const clients = defineTable('crm_oauth_clients', {
  id: { ...textColumn, primary: true },
  name: textColumn,
  redirect_uris: textColumn,
  created_at: now,
  last_used_at: { ...timestampColumn, nullable: true },
});

/** Registered OAuth clients, and consents of members to clients. Codes and refresh tokens are only stored as hashes. */
export const oauthTables = [connectedApps, clients];
