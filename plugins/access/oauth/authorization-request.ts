import { errors, UserError } from '../../../engine/errors.ts';
import type { Client } from './clients.ts';
import { matchesRedirectUri } from './redirect-uris.ts';
import { resourceOf } from './services.ts';

/** A valid authorization request (OAuth 2.1). */
export interface AuthorizationRequest {
  /** The client, with the host that identifies it to users. */
  readonly client: Client & { readonly host: string };
  readonly redirectUri: string;
  readonly state: string | undefined;
  /** PKCE code challenge (S256). */
  readonly challenge: string;
}

/** Maximum length of an authorization request's query string, in characters. The login page returns to URLs of this length. */
const maxLength = 1900;

/** Characters that URLSearchParams leaves unescaped or escapes differently from URLs of the login page. */
const escapes: readonly (readonly [RegExp, string])[] = [
  [/\+/g, '%20'],
  [/\*/g, '%2A'],
  [/\.\./g, '.%2E'],
];

/**
 * Returns the query string in the form in which the login page returns to it.
 * @throws HttpError 400 if it is too long
 */
export function normalQuery(query: string): string {
  const text = escapes.reduce(
    (result, [pattern, replacement]) => result.replace(pattern, replacement),
    String(new URLSearchParams(query)),
  );
  if (text.length > maxLength) throw errors.invalidParameter('state', 'is too long');
  return text;
}

/** An OAuth error code with a description for the client's developer. */
type Rejection = readonly [error: string, description: string];

/**
 * Reads an authorization request.
 * @returns the request, or the URL to which the browser is redirected if the request is not valid
 * @throws HttpError 400 if the client or its redirect URI is not valid, because the browser must then not be redirected
 */
export async function readAuthorizationRequest(
  query: string,
  issuer: string,
  findClient: (id: string) => Promise<Client>,
): Promise<AuthorizationRequest | { readonly redirect: string }> {
  const parameters = new URLSearchParams(query);
  const names = [...parameters.keys()];
  const repeated = names.find((name, index) => names.indexOf(name) !== index);
  if (repeated !== undefined) throw errors.invalidParameter(repeated, 'must not be repeated');
  const parameter = (name: string) => parameters.get(name) ?? undefined;
  const client = await findClient(parameter('client_id') ?? '').catch((cause: unknown) => {
    throw cause instanceof UserError
      ? errors.invalidParameter('client_id', `is not valid: ${cause.message}`)
      : cause;
  });
  const redirectUri = parameter('redirect_uri') ?? '';
  if (!matchesRedirectUri(redirectUri, client.redirectUris))
    throw errors.invalidParameter('redirect_uri', 'is not one of the redirect URIs of the client');
  const state = parameter('state');
  const challenge = parameter('code_challenge') ?? '';
  const rejection = rejectionOf(parameter, issuer);
  const { hostname } = new URL(redirectUri);
  if (rejection === undefined)
    return { client: { ...client, host: client.host ?? hostname }, redirectUri, state, challenge };
  const [error, error_description] = rejection;
  return { redirect: authorizationResponse(issuer, { redirectUri, state }, { error, error_description }) };
}

function rejectionOf(parameter: (name: string) => string | undefined, issuer: string): Rejection | undefined {
  if (parameter('response_type') !== 'code')
    return ['unsupported_response_type', 'response_type must be code'];
  if ((parameter('response_mode') ?? 'query') !== 'query')
    return ['invalid_request', 'response_mode must be query'];
  if (parameter('code_challenge_method') !== 'S256')
    return ['invalid_request', 'code_challenge_method must be S256'];
  if (!/^[\w-]{43}$/.test(parameter('code_challenge') ?? ''))
    return [
      'invalid_request',
      'code_challenge must be the SHA-256 digest of the verifier, base64url-encoded',
    ];
  return isResource(parameter('resource'), issuer)
    ? undefined
    : ['invalid_target', `resource must be ${resourceOf(issuer)}`];
}

/** Returns whether a `resource` parameter (RFC 8707) is this instance. Without the parameter, tokens are for this instance, too. */
export const isResource = (resource: string | undefined, issuer: string): boolean =>
  resource === undefined || [issuer, `${issuer}/`, resourceOf(issuer)].includes(resource);

/** Returns the URL that returns a result to the client, with the issuer (RFC 9207). */
export function authorizationResponse(
  issuer: string,
  { redirectUri, state }: Pick<AuthorizationRequest, 'redirectUri' | 'state'>,
  result: Readonly<Record<string, string>>,
): string {
  const parameters = new URLSearchParams({ ...result, ...(state !== undefined && { state }), iss: issuer });
  return `${redirectUri}${redirectUri.includes('?') ? '&' : '?'}${parameters}`;
}
