import { LRUCache } from 'lru-cache';
import type { Configuration } from 'openid-client';
import { isLoopback } from '../../../engine/loopback.ts';

/**
 * An OpenID Connect provider (`login.providers` in config.yaml). The provider is disabled while a required
 * string is blank.
 */
export interface ProviderSettings {
  /** Name on the login page. */
  readonly name: string;
  readonly issuer: string;
  readonly client_id: string;
  readonly client_secret: string;
  /** Whether the provider already verifies a second factor, so that this instance does not ask for one. */
  readonly verifies_second_factor?: boolean;
  /** Rules for creating new users. If absent, users must already exist on this instance. */
  readonly new_users?: {
    /** Whether a login accepts an open invitation to the email address. */
    readonly invited?: boolean;
    /** New users' memberships, keyed by their email domain. */
    readonly domains?: Readonly<Record<string, { readonly organization: string; readonly profile: string }>>;
  };
}

/** Reports whether users can log in through a provider. */
export const isAvailable = ({ name, issuer, client_id, client_secret }: ProviderSettings): boolean =>
  [name, issuer, client_id, client_secret].every((text) => text.trim() !== '') && URL.canParse(issuer);

/** Timeout for requests to a provider, in seconds. It is short because users wait for the response. */
export const timeoutSeconds = 5;
/** How long a discovery document is cached, in milliseconds. */
const cacheMs = 3_600_000;

/** Creates clients for providers from their discovery documents. */
interface Providers {
  /** Returns the client for a provider. @throws an error if discovery fails */
  readonly clientOf: (settings: ProviderSettings) => Promise<Configuration>;
}

export function providers(): Providers {
  const clients = new LRUCache<string, Promise<Configuration>>({ max: 100, ttl: cacheMs });
  return {
    clientOf: (settings) => {
      const { issuer, client_id, client_secret } = settings;
      const key = JSON.stringify([issuer, client_id, client_secret]);
      const client = clients.get(key) ?? discover(settings);
      clients.set(key, client, { noUpdateTTL: true });
      client.catch(() => clients.delete(key));
      return client;
    },
  };
}

/** Reads a provider's discovery document. @throws an error if discovery fails */
export async function discover(
  { issuer, client_id: id, client_secret: secret }: ProviderSettings,
  timeout = timeoutSeconds,
): Promise<Configuration> {
  // Loaded on first use, because many instances have no provider.
  const { allowInsecureRequests, ClientSecretBasic, ClientSecretPost, discovery } = await import(
    'openid-client'
  );
  const server = new URL(issuer);
  const [basic, post] = [ClientSecretBasic(secret), ClientSecretPost(secret)];
  return discovery(
    server,
    id,
    undefined,
    (as, client, body, headers) => {
      const methods = as.token_endpoint_auth_methods_supported ?? ['client_secret_basic'];
      (methods.includes('client_secret_basic') ? basic : post)(as, client, body, headers);
    },
    // Plain HTTP is allowed only for trials with a provider on this machine.
    { timeout, execute: isLoopback(server.hostname) ? [allowInsecureRequests] : [] },
  );
}
