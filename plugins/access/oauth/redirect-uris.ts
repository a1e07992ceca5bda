/** Maximum length of a redirect URI, in characters. */
const maxLength = 1000;

/** Matches a redirect URI of a native app, which listens on any free port (RFC 8252, section 7.3). */
const loopback = /^(http:\/\/(?:127\.0\.0\.1|\[::1\]|localhost))(?::\d{1,5})?(\/[^#]*)?$/;

/**
 * Matches a redirect URI with a private-use scheme, which the operating system passes to a native app: a domain name in reverse
 * order, and a path without an authority (RFC 8252, section 7.1).
 */
const privateUse = /^([a-z][a-z\d-]*(?:\.[a-z\d-]+)+):\/(?!\/)/;

/**
 * Returns whether a client can have a redirect URI: an https URL, an http URL on loopback, or a URI whose private-use scheme
 * belongs to the client's host. It has neither a user nor a fragment.
 * @param host the host of the client's metadata document; undefined for a registered client, which cannot have private-use schemes
 */
export function isRedirectUri(value: unknown, host: string | undefined): value is string {
  // Characters that URL parsers remove or convert are rejected, because the client's parser may treat them differently.
  if (typeof value !== 'string' || value.length > maxLength || !/^[\x21-\x7e]+$/.test(value)) return false;
  if (/[\\#"<>^`{|}]/.test(value) || !URL.canParse(value)) return false;
  const [, scheme] = privateUse.exec(value) ?? [];
  if (scheme !== undefined) return host !== undefined && isSchemeOf(scheme, host);
  const url = new URL(value);
  if (url.username !== '' || url.password !== '' || url.host === '') return false;
  return value.startsWith('https://') || (url.protocol === 'http:' && loopback.test(value));
}

/** Returns whether a scheme is a host in reverse order, or begins with it: `com.example.app` belongs to `example.com`. */
function isSchemeOf(scheme: string, host: string): boolean {
  const reversed = host.split('.').reverse().join('.');
  return `${scheme}.`.startsWith(`${reversed}.`);
}

/**
 * Returns whether a redirect URI in a request is one of the client's. It must be identical, except for the port of a native app
 * on loopback.
 */
export function matchesRedirectUri(redirectUri: string, allowed: readonly string[]): boolean {
  if (allowed.includes(redirectUri)) return true;
  const native = isRedirectUri(redirectUri, undefined) ? withoutPort(redirectUri) : undefined;
  return native !== undefined && allowed.some((candidate) => withoutPort(candidate) === native);
}

/** Returns a loopback redirect URI without its port, or undefined for other URIs. */
function withoutPort(uri: string): string | undefined {
  const [, origin, path = ''] = loopback.exec(uri) ?? [];
  return origin === undefined ? undefined : origin + path;
}

/** Returns the host and port to which a redirect URI leads, or its private-use scheme. */
export const receiverOf = (redirectUri: string): string =>
  privateUse.exec(redirectUri)?.[1] ?? new URL(redirectUri).host;
