import { LRUCache } from 'lru-cache';
import type { Configuration } from 'openid-client';
import { isLoopback } from '../../../engine/loopback.ts';

/** An OpenID Connect provider (`login.providers` in config.yaml). It is off while one of the texts is blank. */
export interface ProviderSettings {
  /** On the login page. */
  readonly name: string;
  readonly issuer: string;
  readonly client_id: string;
  readonly client_secret: string;
  /** Whether the provider asks for a second factor itself, so that none is asked for here. */
  readonly verifies_second_factor?: boolean;
  /** What becomes of people who have no user here; absent: they are refused. */
  readonly new_users?: {
    /** Whether an open invitation to their address is accepted. */
    readonly invited?: boolean;
    /** Where people with an address of a domain become members. */
    readonly domains?: Readonly<Record<string, { readonly organization: string; readonly profile: string }>>;
  };
}

/** Whether people can log in at a provider. */
export const isAvailable = ({ name, issuer, client_id, client_secret }: ProviderSettings): boolean =>
  [name, issuer, client_id, client_secret].every((text) => text.trim() !== '') && URL.canParse(issuer);

/** Seconds that a provider may take to respond: people wait for it. */
export const timeoutSeconds = 5;
/** How long what a provider says of itself is kept. */
const keptMs = 3_600_000;

/** Finds out how to talk to providers. */
export interface Providers {
  /** @throws whatever keeps a provider from responding */
  readonly clientOf: (settings: ProviderSettings) => Promise<Configuration>;
}

export function providers(): Providers {
  const known = new LRUCache<string, Promise<Configuration>>({ max: 100, ttl: keptMs });
  return {
    clientOf: (settings) => {
      const { issuer, client_id, client_secret } = settings;
      const key = JSON.stringify([issuer, client_id, client_secret]);
      const found = known.get(key) ?? discover(settings);
      known.set(key, found, { noUpdateTTL: true });
      found.catch(() => known.delete(key));
      return found;
    },
  };
}

/** Reads what a provider says of itself. @throws whatever keeps it from responding */
export async function discover(
  { issuer, client_id: id, client_secret: secret }: ProviderSettings,
  timeout = timeoutSeconds,
): Promise<Configuration> {
  // Loaded when somebody logs in so: many instances have no provider.
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
    // Without TLS only on this machine, for trying it out.
    { timeout, execute: isLoopback(server.hostname) ? [allowInsecureRequests] : [] },
  );
}
