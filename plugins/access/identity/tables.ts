import type { Generated } from 'kysely';
import {
  bigintColumn,
  booleanColumn,
  defineTable,
  identity,
  integerColumn,
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
    crm_users: {
      id: Generated<string>;
      /** Normalized email address. Unique among verified users and an organization's unverified users. */
      email: string;
      /** The person's name; null until the user or the operator enters it. */
      name: string | null;
      /** The language of pages and emails; null if the browser decides. */
      language: string | null;
      password_hash: string;
      /** When the owner or the operator verified the email address; null until then. */
      verified_at: Date | null;
      /** The only organization that an unverified user can belong to; null for a verified user. */
      organization_id: string | null;
      /** When the user was disabled; null if the user is enabled. */
      disabled_at: Date | null;
      /** Incremented by "log out everywhere". JWTs with an earlier version are void. */
      token_version: Generated<number>;
      created_at: Generated<Date>;
    };
    crm_sessions: {
      id: Generated<string>;
      user_id: string;
      /** SHA-256 of the cookie value, in hex. */
      token_hash: string;
      /** The `jti` of this login's JWT. */
      jti: string;
      user_agent: string;
      /** How the user logged in, as text. */
      method: Generated<string>;
      /** Whether the user proved a second factor at login. */
      second_factor: Generated<boolean>;
      created_at: Generated<Date>;
      last_seen_at: Generated<Date>;
      expires_at: Date;
    };
    crm_memberships: {
      organization_id: string;
      user_id: string;
      profile_id: string;
      created_at: Generated<Date>;
    };
    crm_resets: {
      id: Generated<string>;
      /** ID in the link. The code that unlocks the link is not part of it. */
      public_id: string;
      code_hash: string;
      user_id: string;
      /** The organization whose administrator created the link; null if it was mailed to the user. */
      organization_id: string | null;
      created_at: Generated<Date>;
      expires_at: Date;
      used_at: Date | null;
    };
    crm_totps: {
      user_id: string;
      /** The authenticator app's sealed secret. */
      secret: string;
      /** Time step of the last code used. Codes for this step and earlier steps are rejected. */
      last_step: string;
      created_at: Generated<Date>;
    };
    crm_passkeys: {
      id: Generated<string>;
      user_id: string;
      /** Credential ID assigned by the authenticator, base64url-encoded. */
      credential: string;
      /** Public key in COSE format, base64url-encoded. */
      public_key: string;
      /** The authenticator's signature counter, if it has one. */
      uses: string;
      /** Comma-separated list of transports through which browsers reach the authenticator. */
      transports: string;
      name: string;
      created_at: Generated<Date>;
      last_used_at: Date | null;
    };
    crm_recovery_codes: {
      user_id: string;
      code_hash: string;
    };
    crm_identities: {
      /** URL of the OpenID Connect provider. `subject` is the provider's ID for the user. */
      issuer: string;
      subject: string;
      user_id: string;
      created_at: Generated<Date>;
    };
  }
}

const users = defineTable(
  'crm_users',
  {
    id: identity,
    email: textColumn,
    name: { ...textColumn, nullable: true },
    language: { ...textColumn, nullable: true },
    password_hash: textColumn,
    verified_at: { ...timestampColumn, nullable: true },
    ...link('organization_id', 'crm_organizations', { nullable: true }),
    disabled_at: { ...timestampColumn, nullable: true },
    token_version: { ...integerColumn, defaultRaw: '1' },
    created_at: now,
  },
  {
    indexes: [
      {
        name: 'crm_users_verified_email',
        kind: 'unique',
        keys: ['"email"'],
        where: '"verified_at" is not null',
      },
      {
        name: 'crm_users_unverified_email',
        kind: 'unique',
        keys: ['"email"', '"organization_id"'],
        where: '"verified_at" is null',
      },
    ],
  },
);

const sessions = defineTable(
  'crm_sessions',
  {
    id: identity,
    ...link('user_id', 'crm_users', { deleteRule: 'cascade' }),
    token_hash: textColumn,
    jti: textColumn,
    user_agent: textColumn,
    method: { ...textColumn, defaultRaw: "'Password'" },
    second_factor: { ...booleanColumn, defaultRaw: 'false' },
    created_at: now,
    last_seen_at: now,
    expires_at: timestampColumn,
  },
  {
    uniques: [
      { name: 'crm_sessions_token', properties: ['token_hash'] },
      { name: 'crm_sessions_jti', properties: ['jti'] },
    ],
    indexes: [{ name: 'crm_sessions_user', properties: ['user_id_link'] }],
  },
);

const memberships = defineTable(
  memberTable,
  {
    ...tenant(),
    ...link('user_id', 'crm_users', { primary: true, deleteRule: 'cascade' }),
    ...tenantLink('crm_memberships', 'profile', 'crm_profiles', { ownColumns: ['profile_id'] }),
    created_at: now,
  },
  {
    indexes: [{ name: 'crm_memberships_user', properties: ['user_id_link'] }],
    // Stored on every database node, because a session needs the user's memberships in all organizations.
    placement: 'everywhere',
  },
);

const resets = defineTable(
  'crm_resets',
  {
    id: identity,
    public_id: textColumn,
    code_hash: textColumn,
    ...link('user_id', 'crm_users', { deleteRule: 'cascade' }),
    ...link('organization_id', 'crm_organizations', { nullable: true }),
    created_at: now,
    expires_at: timestampColumn,
    used_at: { ...timestampColumn, nullable: true },
  },
  {
    uniques: [{ name: 'crm_resets_public_id', properties: ['public_id'] }],
    indexes: [{ name: 'crm_resets_user', properties: ['user_id_link'] }],
  },
);

const totps = defineTable('crm_totps', {
  ...link('user_id', 'crm_users', { primary: true, deleteRule: 'cascade' }),
  secret: textColumn,
  last_step: bigintColumn,
  created_at: now,
});

const passkeys = defineTable(
  'crm_passkeys',
  {
    id: identity,
    ...link('user_id', 'crm_users', { deleteRule: 'cascade' }),
    credential: textColumn,
    public_key: textColumn,
    uses: bigintColumn,
    transports: textColumn,
    name: textColumn,
    created_at: now,
    last_used_at: { ...timestampColumn, nullable: true },
  },
  {
    uniques: [{ name: 'crm_passkeys_credential', properties: ['credential'] }],
    indexes: [{ name: 'crm_passkeys_user', properties: ['user_id_link'] }],
  },
);

const recoveryCodes = defineTable('crm_recovery_codes', {
  ...link('user_id', 'crm_users', { primary: true, deleteRule: 'cascade' }),
  code_hash: { ...textColumn, primary: true },
});

const identities = defineTable(
  'crm_identities',
  {
    issuer: { ...textColumn, primary: true },
    subject: { ...textColumn, primary: true },
    ...link('user_id', 'crm_users', { deleteRule: 'cascade' }),
    created_at: now,
  },
  { uniques: [{ name: 'crm_identities_user', properties: ['user_id_link', 'issuer'] }] },
);

/** Tables for users and their memberships, sessions, reset links, second factors and accounts at providers. */
export const identityTables = [
  ...[users, sessions, memberships, resets],
  ...[totps, passkeys, recoveryCodes, identities],
];
