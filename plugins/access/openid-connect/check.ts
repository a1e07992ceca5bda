import type { DoctorCheck } from '../../../engine/modules/index.ts';
import { discover, isAvailable, type ProviderSettings, timeoutSeconds } from './providers.ts';

/** Endpoints that a discovery document must contain for logins to work. */
const endpoints = ['authorization_endpoint', 'token_endpoint', 'jwks_uri'] as const;

/** Returns why logins at a provider would fail, or undefined if its discovery document is valid. */
export async function discoveryIssue(
  settings: ProviderSettings,
  limitSeconds = timeoutSeconds,
): Promise<string | undefined> {
  try {
    const metadata = (await discover(settings, limitSeconds)).serverMetadata();
    const missing = endpoints.filter((name) => !URL.canParse(metadata[name] ?? ''));
    return missing.length === 0 ? undefined : `its discovery document lacks ${missing.join(' and ')}`;
  } catch (cause) {
    return `${settings.issuer} ${reasonOf(cause, limitSeconds)}`;
  }
}

/**
 * Describes why discovery failed. Quotes only the issuer from the provider's response, because the rest may echo the
 * request.
 */
function reasonOf(error: unknown, limitSeconds: number): string {
  const { code, cause, message } = error as Error & { readonly code?: string };
  const details = (cause ?? {}) as {
    readonly status?: number;
    readonly body?: { readonly issuer?: unknown };
    readonly code?: string;
    readonly message?: string;
  };
  if (code === undefined) return `cannot be reached (${details.code ?? details.message ?? message})`;
  const issuer = JSON.stringify(details.body?.issuer)?.slice(0, 200);
  const reasons: Readonly<Record<string, string>> = {
    OAUTH_TIMEOUT: `did not respond within ${limitSeconds} s`,
    OAUTH_HTTP_REQUEST_FORBIDDEN: 'does not use TLS, which is only allowed for a provider on this machine',
    OAUTH_RESPONSE_IS_NOT_CONFORM: `responded with ${details.status} to the request for its discovery document`,
    OAUTH_JSON_ATTRIBUTE_COMPARISON_FAILED: `has a discovery document for another issuer: ${issuer}`,
  };
  return reasons[code] ?? `does not have a usable discovery document (${code})`;
}

/** Services required for the check. */
export interface CheckedProviders {
  readonly settings: {
    readonly login: { readonly providers: Readonly<Record<string, ProviderSettings>> };
  };
}

/** Checks that users can log in at every provider in config.yaml. */
export const providersCheck: DoctorCheck<CheckedProviders> = {
  name: 'OpenID Connect providers',
  needs: ['settings'],
  run: async ({ settings: { login } }) => {
    const findings = await Promise.all(
      Object.entries(login.providers).map(async ([name, settings]) => {
        const location = `login.providers.${name}`;
        const { issuer } = settings;
        if (issuer.trim() !== '' && !URL.canParse(issuer)) {
          return {
            location: `${location}.issuer`,
            message: 'the issuer is not a URL, so the provider is disabled',
            advice:
              'Set it to the issuer that the provider documents, for example https://login.example.com.',
          };
        }
        if (!isAvailable(settings)) {
          const message =
            'the provider is disabled because its name, issuer, client_id or client_secret is blank';
          return { location, message, advice: 'Set them, or remove the provider.', isNote: true as const };
        }
        const message = await discoveryIssue(settings);
        const advice =
          'Correct its issuer (its URL without /.well-known/…), or ask its operator. Logins with passwords still work.';
        return message === undefined ? undefined : { location, message, advice };
      }),
    );
    return findings.filter((finding) => finding !== undefined);
  },
};
