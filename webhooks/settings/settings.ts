import type { AddressPolicy } from '../../engine/addresses.ts';
import type { SecondFactorPolicy } from '../../plugins/access/identity/index.ts';
import type { ConnectorSettings } from '../../plugins/access/oauth/index.ts';
import type { ProviderSettings } from '../../plugins/access/openid-connect/index.ts';
import type { BackupSettings } from '../../plugins/operations/backup/index.ts';
import type { MailSettings } from '../../plugins/operations/mail/index.ts';
import type { NewOrganizations } from '../../plugins/tenants/organizations/index.ts';
import type { QuotaSettings } from '../../plugins/tenants/quotas/index.ts';
import type { Evaluate } from './expressions.ts';

/** An endpoint's valid secrets. If the list is empty, the endpoint is not configured. */
type Secrets = readonly string[];

/** Authentication scheme for a payment hook. */
export type Scheme = 'key' | 'hmac-sha256-hex' | 'hmac-sha256-base64' | 'stripe';

/**
 * A customer's payment hook in config.yaml. Strings that contain `{{…}}` are evaluated against the payload.
 */
export interface RawPayment {
  readonly organization: string;
  readonly verify: { readonly scheme?: Scheme; readonly header: string; readonly secrets: Secrets };
  readonly event_id?: string;
  readonly event_id_header?: string;
  readonly when?: Readonly<Record<string, readonly string[]>>;
  readonly lead?: { readonly id?: string; readonly email?: string; readonly phone?: string };
  readonly opportunity?: {
    readonly name?: string;
    readonly amount?: string;
    readonly currency?: string;
    readonly close_date?: string;
    readonly minor_units?: boolean;
  };
}

/** A payment hook with its compiled expressions. */
export interface Payment extends RawPayment {
  /** Evaluates one of this entry's expressions. */
  readonly evaluate: Evaluate;
}

/** Settings for an organization's message sender. */
export interface SenderSettings {
  /** `log`, `whatsapp_cloud` or the name of a module's channel that can send messages. */
  readonly sender: string;
  readonly phone_number_id?: string;
  readonly access_token?: string;
  readonly templates?: Readonly<Record<string, { readonly name: string; readonly language: string }>>;
}

/** Contents of config.yaml, with defaults and resolved environment references. */
export interface Settings {
  /** Files and packages of the instance's own modules. */
  readonly modules: readonly string[];
  readonly partners: {
    readonly inbound_leads: { readonly secrets: Secrets };
    readonly booking_forms_whatsapp: { readonly secrets: Secrets; readonly organization: string };
    readonly payments: Readonly<Record<string, Payment>>;
  };
  readonly messaging: Readonly<Record<string, SenderSettings>>;
  readonly graph: { readonly base_url: string; readonly version: string; readonly timeout_ms: number };
  /** Whether the instance is read-only, for maintenance. */
  readonly read_only: boolean;
  /** Users allowed to create organizations in the browser. */
  readonly new_organizations: NewOrganizations;
  readonly quotas: QuotaSettings;
  /** The instance's public origin, or an empty string if it is not set. */
  readonly public_url: string;
  /** Whether agents can use the Model Context Protocol, and its options. */
  readonly mcp: ConnectorSettings;
  readonly mail: MailSettings;
  /** Login settings. */
  readonly login: {
    readonly second_factor: SecondFactorPolicy;
    /** OpenID Connect providers, keyed by the name in their callback URL. */
    readonly providers: Readonly<Record<string, ProviderSettings>>;
  };
  readonly inbox: { readonly attempts: number; readonly max_waiting: number };
  /** Restrictions on receiver URLs for event subscriptions. */
  readonly events: AddressPolicy;
  /** Retention periods for events and the change log, in days. */
  readonly retention: {
    readonly inbox_done_days: number;
    readonly inbox_dead_days: number;
    readonly events_done_days: number;
    readonly events_dead_days: number;
    readonly ledger_days: number;
  };
  readonly backups: BackupSettings;
}

type DeepPartial<T> = { readonly [K in keyof T]?: T[K] extends string | boolean ? T[K] : Partial<T[K]> };

/** Settings as they appear in the file: all keys are optional, and expressions are not compiled. */
export type RawSettings = DeepPartial<Omit<Settings, 'partners' | 'modules'>> & {
  readonly modules?: readonly string[];
  readonly partners?: Partial<Omit<Settings['partners'], 'payments'>> & {
    readonly payments?: Readonly<Record<string, RawPayment>>;
  };
};

/** Removes the trailing slash from a URL, so that a path can be appended. */
export const withoutSlash = (url: string): string => url.replace(/\/$/, '');

/** Default settings. A test checks that the default config.yaml has the same values. */
export const defaults = {
  modules: [],
  partners: {
    inbound_leads: { secrets: ['${INBOUND_SECRET}'] },
    booking_forms_whatsapp: { secrets: ['${BOOKING_FORMS_WHATSAPP_TOKEN}'], organization: 'demo' },
    payments: {},
  },
  messaging: { demo: { sender: 'log' } },
  graph: { base_url: 'https://graph.facebook.com', version: 'v23.0', timeout_ms: 5000 },
  read_only: false,
  new_organizations: 'nobody',
  quotas: { records: 0, keys: 0, storage_mb: 0, organizations: {} },
  public_url: '${PUBLIC_URL}',
  mcp: false,
  mail: {
    from: '${MAIL_FROM}',
    url: '${SMTP_URL}',
    host: '',
    port: 587,
    user: '',
    password: '',
    allow_plaintext: false,
  },
  login: { second_factor: 'off', providers: {} },
  inbox: { attempts: 12, max_waiting: 50_000 },
  events: { allow_private_addresses: false, allow_http: false, ports: [80, 443, 8080, 8443] },
  retention: {
    inbox_done_days: 30,
    inbox_dead_days: 90,
    events_done_days: 7,
    events_dead_days: 30,
    ledger_days: 400,
  },
  backups: { folder: '', every_hours: 24, keep: 7, keep_days: 30 },
} as const satisfies Settings;
