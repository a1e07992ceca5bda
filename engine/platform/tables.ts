import { EntitySchema } from '@mikro-orm/core';
import type { Generated } from 'kysely';

/** Columns of the platform's tables, as queries see them. Ids are decimal text, times are Date. */
export interface PlatformTables {
  crm_organizations: { id: Generated<string>; slug: string; name: string; created_at: Generated<Date> };
  crm_users: {
    id: Generated<string>;
    email: string;
    password_hash: string;
    /** Rises with "sign out everywhere"; a JWT of an earlier version is void. */
    token_version: Generated<number>;
    created_at: Generated<Date>;
  };
  crm_sessions: {
    id: Generated<string>;
    user_id: string;
    /** SHA-256 of the cookie's value, hex. */
    token_hash: string;
    /** What a JWT of this login names as its `jti`. */
    jti: string;
    user_agent: string;
    created_at: Generated<Date>;
    last_seen_at: Generated<Date>;
    expires_at: Date;
  };
  crm_profiles: { organization_id: string; id: Generated<string>; name: string; created_at: Generated<Date> };
  crm_grants: { organization_id: string; profile_id: string; object: string; action: string };
  crm_memberships: {
    organization_id: string;
    user_id: string;
    profile_id: string;
    created_at: Generated<Date>;
  };
  crm_api_keys: {
    organization_id: string;
    id: Generated<string>;
    public_id: string;
    secret_hash: string;
    last_four: string;
    name: string;
    profile_id: string;
    created_by_id: string | null;
    created_at: Generated<Date>;
    last_used_at: Date | null;
    expires_at: Date | null;
    revoked_at: Date | null;
  };
  crm_invites: {
    organization_id: string;
    id: Generated<string>;
    /** Stands in the link. The code that opens it does not. */
    public_id: string;
    code_hash: string;
    email: string;
    profile_id: string;
    invited_by_id: string | null;
    created_at: Generated<Date>;
    expires_at: Date;
    used_at: Date | null;
  };
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
  crm_messages: {
    organization_id: string;
    id: Generated<string>;
    recipient: string;
    body: string;
    template: string;
    /** sent or failed. */
    status: string;
    provider_id: string | null;
    /** Why it was not sent. */
    error: string | null;
    created_at: Generated<Date>;
  };
  crm_payment_events: {
    organization_id: string;
    id: Generated<string>;
    customer: string;
    event_id: string;
    /** What the partner was answered, JSON without its closing brace; null where there was nothing to do it to. */
    answer: string | null;
    /** The beginning of what was sent, for an administrator who looks for the lead. */
    payload: string;
    received_at: Generated<Date>;
  };
  crm_integrations: {
    organization_id: string;
    id: Generated<string>;
    provider: string;
    name: string;
    /** Stands in the address that the provider calls; random, so that it cannot be guessed. */
    endpoint: string;
    /** SHA-256 of the token that the handshake confirms, hex. */
    verify_token_hash: string;
    /** The provider's secret, encrypted (JWE). */
    secret: string;
    /** The token to ask the provider back with, encrypted (JWE); empty where none is needed. */
    token: string;
    enabled: Generated<boolean>;
    created_at: Generated<Date>;
  };
  crm_inbox: {
    organization_id: string;
    id: Generated<string>;
    integration_id: string;
    event_id: string;
    payload: string;
    /** waiting, done or dead. */
    status: Generated<string>;
    attempts: Generated<number>;
    next_at: Generated<Date>;
    error: Generated<string>;
    received_at: Generated<Date>;
    done_at: Date | null;
  };
  crm_received_messages: {
    organization_id: string;
    id: Generated<string>;
    integration_id: string;
    provider_id: string;
    sender: string;
    body: string;
    received_at: Generated<Date>;
  };
  crm_secret_uses: { endpoint: string; fingerprint: string; last_used_at: Date };
}

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
    { id: identity, email: text, password_hash: text, token_version: version, created_at: now },
    { uniques: [{ name: 'crm_users_email', properties: ['email'] }] },
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
      created_at: now,
      expires_at: time,
      used_at: { ...time, nullable: true },
    },
    { uniques: [{ name: 'crm_invites_public_id', properties: ['public_id'] }] },
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
        {
          name: 'crm_inbox_waiting',
          expression: `create index "crm_inbox_waiting" on "crm_inbox" ("next_at") where "status" = 'waiting'`,
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
