// A real OpenID Connect provider on loopback. Every visitor logs in with the account set by the test.
import { createServer } from 'node:http';
import { exportJWK, generateKeyPair } from 'jose';
import Provider from 'oidc-provider';

/** The provider's claims about an account. */
interface Account {
  readonly email?: string;
  readonly email_verified?: unknown;
}

/** A running provider. */
export interface OpenIdProvider {
  readonly issuer: string;
  readonly secret: string;
  /** Registers an instance with this redirect URL as a client. */
  readonly serve: (redirect: string) => Promise<void>;
  /** Sets the subject of the next login, or undefined to simulate a user who cancels it. */
  readonly comes: (subject: string | undefined, account?: Account) => void;
  /** Follows a login from its first URL to the redirect URL. */
  readonly follow: (address: string) => Promise<URL>;
  readonly close: () => Promise<void>;
}

/**
 * Starts a provider.
 * @param method how clients authenticate. With `client_secret_post`, ID tokens contain the email address
 */
export async function startProvider(
  method: 'client_secret_basic' | 'client_secret_post' = 'client_secret_basic',
): Promise<OpenIdProvider> {
  const secret = 'the-secret-of-the-client-at-the-provider';
  const accounts = new Map<string, Account>();
  let current: string | undefined;
  let provider: Provider | undefined;
  const server = createServer(async (request, response) => {
    if (provider === undefined) return response.writeHead(503).end();
    // The library also accepts the other method.
    if (method === 'client_secret_post' && request.headers.authorization?.startsWith('Basic '))
      return response.writeHead(401).end();
    if (!request.url?.startsWith('/interaction/')) return provider.callback()(request, response);
    const result = current === undefined ? { error: 'access_denied' } : { login: { accountId: current } };
    return provider.interactionFinished(request, response, result);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as { port: number };
  const issuer = `http://127.0.0.1:${port}`;
  return {
    issuer,
    secret,
    serve: async (redirect) => {
      const { privateKey } = await generateKeyPair('RS256', { extractable: true });
      provider = new Provider(issuer, {
        clients: [
          {
            ...{ client_id: 'crm', client_secret: secret, redirect_uris: [redirect] },
            token_endpoint_auth_method: method,
          },
        ],
        clientAuthMethods: [method],
        conformIdTokenClaims: method === 'client_secret_basic',
        jwks: { keys: [{ ...(await exportJWK(privateKey)), alg: 'RS256', use: 'sig', kid: 'one' }] },
        cookies: { keys: ['a key for cookies'] },
        claims: { openid: ['sub'], email: ['email', 'email_verified'] },
        ttl: { Interaction: 600, Grant: 600, Session: 600, AccessToken: 600, IdToken: 600 },
        pkce: { required: () => true },
        features: { devInteractions: { enabled: false } },
        interactions: { url: (_context, { uid }) => `/interaction/${uid}` },
        findAccount: (_context, sub) => ({
          accountId: sub,
          claims: async () => ({ sub, ...accounts.get(sub) }),
        }),
        loadExistingGrant: async ({ oidc }) => {
          const { client, session } = oidc;
          const grant = new oidc.provider.Grant({
            clientId: client?.clientId ?? '',
            accountId: session?.accountId ?? '',
          });
          grant.addOIDCScope('openid email');
          await grant.save();
          return grant;
        },
      });
    },
    comes: (subject, account = {}) => {
      current = subject;
      if (subject !== undefined) accounts.set(subject, account);
    },
    follow: async (address) => {
      const cookies = new Map<string, string>();
      let next = new URL(address);
      while (next.origin === issuer) {
        const cookie = [...cookies].map(([name, value]) => `${name}=${value}`).join('; ');
        const response = await fetch(next, { redirect: 'manual', headers: { cookie } });
        for (const each of response.headers.getSetCookie()) {
          const [, name = '', value = ''] = /^([^=]+)=([^;]*)/.exec(each) ?? [];
          cookies.set(name, value);
        }
        const location = response.headers.get('location');
        if (location === null) throw new Error(`${response.status} at ${next}: ${await response.text()}`);
        next = new URL(location, next);
      }
      return next;
    },
    close: async () => {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
