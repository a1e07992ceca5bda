/** Maximum length of a redirect URI, in characters. */
const maxLength = 1000;

/** Matches a redirect URI of a native app, which listens on any free port (RFC 8252). */
const loopback = /^(http:\/\/(?:127\.0\.0\.1|\[::1\]|localhost))(?::\d{1,5})?(\/[^#]*)?$/;

/** Returns whether a client can have a redirect URI: an https URL, or an http URL on loopback, without user and fragment. */
export function isRedirectUri(value: unknown): value is string {
  // Characters that URL parsers remove or convert are rejected, because the client's parser may treat them differently.
  if (typeof value !== 'string' || value.length > maxLength || !/^[\x21-\x7e]+$/.test(value)) return false;
  if (/[\\#"<>^`{|}]/.test(value) || !URL.canParse(value)) return false;
  const url = new URL(value);
  if (url.username !== '' || url.password !== '' || url.host === '') return false;
  return value.startsWith('https://') || (url.protocol === 'http:' && loopback.test(value));
}

/**
 * Returns whether a redirect URI in a request is one of the client's. It must be identical, except for the port of a native app
 * on loopback.
 */
export function matchesRedirectUri(redirectUri: string, allowed: readonly string[]): boolean {
  if (!isRedirectUri(redirectUri)) return false;
  if (allowed.includes(redirectUri)) return true;
  const native = withoutPort(redirectUri);
  return native !== undefined && allowed.some((candidate) => withoutPort(candidate) === native);
}

/** Returns a loopback redirect URI without its port, or undefined for other URIs. */
function withoutPort(uri: string): string | undefined {
  const [, origin, path = ''] = loopback.exec(uri) ?? [];
  return origin === undefined ? undefined : origin + path;
}
