import { EntitySchema } from '@mikro-orm/core';
import type { PlatformTables } from './tables.ts';

type Properties = Record<string, Record<string, unknown>>;

const text = { type: 'text', columnType: 'text', collation: 'C' };
const bigint = { type: 'bigint', columnType: 'bigint' };
const time = { type: 'timestamptz', columnType: 'timestamptz' };
const now = { ...time, defaultRaw: 'now()' };
const version = { type: 'integer', columnType: 'integer', defaultRaw: '1' };
const identity = { ...bigint, primary: true, autoincrement: true, generated: 'by default as identity' };

/** A foreign key of one column, and the column. */
function link(column: string, to: string, options: Record<string, unknown> = {}): Properties {
  return {
    [column]: { ...bigint, persist: false, nullable: options.nullable === true },
    [`${column}_link`]: {
      kind: 'm:1',
      entity: () => to,
      fieldNames: [column],
      deleteRule: 'no action',
      updateRule: 'no action',
      index: false,
      ...options,
    },
  };
}

/** The foreign key `<name>_id` of a tenant row to a row of its own organization. */
function tenantLink(table: string, name: string, to: string, options: Record<string, unknown>): Properties {
  return {
    [`${name}_id`]: { ...bigint, persist: false },
    [name]: {
      kind: 'm:1',
      entity: () => to,
      joinColumns: ['organization_id', `${name}_id`],
      referencedColumnNames: ['organization_id', 'id'],
      deleteRule: 'no action',
      updateRule: 'no action',
      index: false,
      foreignKeyName: `${table}_${name}_foreign`,
      ...options,
    },
  };
}

const profile = (table: string, options: Record<string, unknown> = {}) =>
  tenantLink(table, 'profile', 'crm_profiles', options);
const integration = (table: string) =>
  tenantLink(table, 'integration', 'crm_integrations', {
    ownColumns: ['integration_id'],
    deleteRule: 'cascade',
  });

const tenant = () => link('organization_id', 'crm_organizations', { primary: true });

/** Keys and indexes of a table beside its primary key. */
interface Keys {
  readonly uniques?: readonly { readonly name: string; readonly properties: readonly string[] }[];
  readonly indexes?: readonly {
    readonly name: string;
    readonly properties?: readonly string[];
    readonly expression?: string;
  }[];
}

const table = (name: keyof PlatformTables, properties: Properties, keys: Keys = {}): EntitySchema =>
  new EntitySchema({ name, tableName: name, properties, ...keys } as unknown as ConstructorParameters<
    typeof EntitySchema
  >[0]);

/** The platform's own tables. Every one that belongs to an organization has it first in its key. */
export const platformEntities: readonly EntitySchema[] = [
  table(
    'crm_organizations',
    { id: identity, slug: text, name: text, created_at: now },
    { uniques: [{ name: 'crm_organizations_slug', properties: ['slug'] }] },
  ),
  table(
    'crm_users',
    {
      id: identity,
      email: text,
      password_hash: text,
      verified_at: { ...time, nullable: true },
      ...link('organization_id', 'crm_organizations', { nullable: true }),
      disabled_at: { ...time, nullable: true },
      token_version: version,
      created_at: now,
    },
    {
      indexes: [
        {
          name: 'crm_users_verified_email',
          expression: `create unique index "crm_users_verified_email" on "crm_users" ("email") where "verified_at" is not null`,
        },
        {
          name: 'crm_users_unverified_email',
          expression: `create unique index "crm_users_unverified_email" on "crm_users" ("email", "organization_id") where "verified_at" is null`,
        },
      ],
    },
  ),
  table(
    'crm_sessions',
    {
      id: identity,
      ...link('user_id', 'crm_users', { deleteRule: 'cascade' }),
      token_hash: text,
      jti: text,
      user_agent: text,
      created_at: now,
      last_seen_at: now,
      expires_at: time,
    },
    {
      uniques: [
        { name: 'crm_sessions_token', properties: ['token_hash'] },
        { name: 'crm_sessions_jti', properties: ['jti'] },
      ],
      indexes: [{ name: 'crm_sessions_user', properties: ['user_id_link'] }],
    },
  ),
  table(
    'crm_profiles',
    { ...tenant(), id: identity, name: text, created_at: now },
    { uniques: [{ name: 'crm_profiles_name', properties: ['organization_id_link', 'name'] }] },
  ),
  table('crm_grants', {
    ...profile('crm_grants', { primary: true, deleteRule: 'cascade' }),
    object: { ...text, primary: true },
    action: { ...text, primary: true },
  }),
  table(
    'crm_memberships',
    {
      ...tenant(),
      ...link('user_id', 'crm_users', { primary: true, deleteRule: 'cascade' }),
      ...profile('crm_memberships', { ownColumns: ['profile_id'] }),
      created_at: now,
    },
    { indexes: [{ name: 'crm_memberships_user', properties: ['user_id_link'] }] },
  ),
  table(
    'crm_api_keys',
    {
      ...tenant(),
      id: identity,
      public_id: text,
      secret_hash: text,
      last_four: text,
      name: text,
      ...profile('crm_api_keys', { ownColumns: ['profile_id'] }),
      // A key outlives its creator (contract section 5, rule 2).
      ...link('created_by_id', 'crm_users', { nullable: true, deleteRule: 'set null' }),
      created_at: now,
      last_used_at: { ...time, nullable: true },
      expires_at: { ...time, nullable: true },
      revoked_at: { ...time, nullable: true },
    },
    { uniques: [{ name: 'crm_api_keys_public_id', properties: ['public_id'] }] },
  ),
  table(
    'crm_invites',
    {
      ...tenant(),
      id: identity,
      public_id: text,
      code_hash: text,
      email: text,
      ...profile('crm_invites', { ownColumns: ['profile_id'] }),
      ...link('invited_by_id', 'crm_users', { nullable: true, deleteRule: 'set null' }),
      mailed: { type: 'boolean', columnType: 'boolean', defaultRaw: 'false' },
      created_at: now,
      expires_at: time,
      used_at: { ...time, nullable: true },
    },
    { uniques: [{ name: 'crm_invites_public_id', properties: ['public_id'] }] },
  ),
  table(
    'crm_resets',
    {
      id: identity,
      public_id: text,
      code_hash: text,
      ...link('user_id', 'crm_users', { deleteRule: 'cascade' }),
      ...link('organization_id', 'crm_organizations', { nullable: true }),
      created_at: now,
      expires_at: time,
      used_at: { ...time, nullable: true },
    },
    {
      uniques: [{ name: 'crm_resets_public_id', properties: ['public_id'] }],
      indexes: [{ name: 'crm_resets_user', properties: ['user_id_link'] }],
    },
  ),
  table(
    'crm_sent_forms',
    { form: { ...text, primary: true }, sent_at: now },
    { indexes: [{ name: 'crm_sent_forms_sent_at', properties: ['sent_at'] }] },
  ),
  // Rows are only ever added, in the transaction of what they tell of.
  table('crm_activity', {
    organization_id: { ...bigint, primary: true },
    id: identity,
    at: now,
    actor_kind: text,
    actor_id: { ...bigint, nullable: true },
    action: text,
    object: text,
    object_id: { ...bigint, nullable: true },
    request_id: { ...text, nullable: true },
  }),
  table(
    'crm_messages',
    {
      ...tenant(),
      id: identity,
      recipient: text,
      body: text,
      template: text,
      status: text,
      provider_id: { ...text, nullable: true },
      error: { ...text, nullable: true },
      created_at: now,
    },
    { indexes: [{ name: 'crm_messages_provider', properties: ['organization_id_link', 'provider_id'] }] },
  ),
  table(
    'crm_payment_events',
    {
      ...tenant(),
      id: identity,
      customer: text,
      event_id: text,
      answer: { ...text, nullable: true },
      payload: text,
      received_at: now,
    },
    {
      uniques: [
        { name: 'crm_payment_events_event', properties: ['organization_id_link', 'customer', 'event_id'] },
      ],
    },
  ),
  table(
    'crm_integrations',
    {
      ...tenant(),
      id: identity,
      provider: text,
      name: text,
      endpoint: text,
      verify_token_hash: text,
      secret: text,
      token: text,
      enabled: { type: 'boolean', columnType: 'boolean', defaultRaw: 'true' },
      created_at: now,
    },
    { uniques: [{ name: 'crm_integrations_endpoint', properties: ['endpoint'] }] },
  ),
  table(
    'crm_inbox',
    {
      ...tenant(),
      id: identity,
      ...integration('crm_inbox'),
      event_id: text,
      payload: text,
      status: { ...text, defaultRaw: "'waiting'" },
      attempts: { type: 'integer', columnType: 'integer', defaultRaw: '0' },
      next_at: now,
      error: { ...text, defaultRaw: "''" },
      received_at: now,
      done_at: { ...time, nullable: true },
    },
    {
      uniques: [
        { name: 'crm_inbox_event', properties: ['organization_id_link', 'integration_id', 'event_id'] },
      ],
      indexes: [
        // What is due, organization by organization (webhooks/inbox/claim.ts).
        {
          name: 'crm_inbox_due',
          expression: `create index "crm_inbox_due" on "crm_inbox" ("organization_id", "integration_id", "next_at") where "status" = 'waiting'`,
        },
        // What was given up, for people who look for it among all that was done.
        {
          name: 'crm_inbox_dead',
          expression: `create index "crm_inbox_dead" on "crm_inbox" ("organization_id", "id") where "status" = 'dead'`,
        },
        // What is old enough to be removed.
        {
          name: 'crm_inbox_ended',
          expression: `create index "crm_inbox_ended" on "crm_inbox" ("status", "done_at") where "status" <> 'waiting'`,
        },
      ],
    },
  ),
  table(
    'crm_received_messages',
    {
      ...tenant(),
      id: identity,
      ...integration('crm_received_messages'),
      provider_id: text,
      sender: text,
      body: text,
      received_at: now,
    },
    {
      uniques: [
        {
          name: 'crm_received_messages_provider',
          properties: ['organization_id_link', 'integration_id', 'provider_id'],
        },
      ],
    },
  ),
  table('crm_secret_uses', {
    endpoint: { ...text, primary: true },
    fingerprint: { ...text, primary: true },
    last_used_at: time,
  }),
];
