import type { Generated } from 'kysely';

/** Columns of the platform's tables, as queries see them. Ids are decimal text, times are Date. */
export interface PlatformTables {
  crm_organizations: { id: Generated<string>; slug: string; name: string; created_at: Generated<Date> };
  crm_users: {
    id: Generated<string>;
    /** In normal form. One verified user has it, and one unverified user of each organization. */
    email: string;
    password_hash: string;
    /** When the address was proven, or the operator vouched for it; null until then. */
    verified_at: Date | null;
    /** The one organization that an unverified user may belong to; null once it is verified. */
    organization_id: string | null;
    /** Since when nobody can log in with it; null while somebody can. */
    disabled_at: Date | null;
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
    /** Whether the code went to the address alone, so that its holder has proven it. */
    mailed: Generated<boolean>;
    created_at: Generated<Date>;
    expires_at: Date;
    used_at: Date | null;
  };
  crm_resets: {
    id: Generated<string>;
    /** Stands in the link. The code that opens it does not. */
    public_id: string;
    code_hash: string;
    user_id: string;
    /** Whose administrator made it; null where it was mailed to the user's address. */
    organization_id: string | null;
    created_at: Generated<Date>;
    expires_at: Date;
    used_at: Date | null;
  };
  crm_sent_forms: {
    /** SHA-256 of what the form was known by, hex. */
    form: string;
    sent_at: Generated<Date>;
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
