// Test support: searches the logs and standard error of all services and commands for secrets.
import assert from 'node:assert/strict';
import { after } from 'node:test';

/** Patterns that must not occur in a log: secrets recognized by their format, and secrets used by tests. */
const secrets: Readonly<Record<string, RegExp>> = {
  'an API key': /[A-Za-z0-9]_[A-Za-z0-9]{8,12}_[A-Za-z0-9]{40,}/,
  'a token': /eyJ[\w-]{10,}\.[\w-]*\.[\w-]+/,
  'a subscription secret': /whsec_[A-Za-z0-9+/]{16,}/,
  'a cookie': /crm_(?:session|device)=[^;\s"]/,
  'a URL with a password': /:\/\/(?!user:password@)[^\s/:@"]+:[^\s/@"]+@/,
  'a header with credentials': /\b(?:bearer|basic) [\w+/=.-]{16,}/i,
  'a provider secret': /\b[a-z-]+-(?:secret|token)-\d/,
  "a test's password or secret":
    /correct horse battery staple|a long enough password|one of their own|a-password-typed|the[- ](?:inbound[- ]secret|secret[- ]of[- ]inbound)/,
};

/** Returns the names of the secrets that occur in a string. */
export const secretsIn = (text: string): string[] =>
  Object.entries(secrets).flatMap(([what, pattern]) => {
    const found = pattern.exec(text);
    return found === null
      ? []
      : [`${what}: ${text.slice(Math.max(0, found.index - 200), found.index + 100)}`];
  });

const found: string[] = [];

/** Searches output for secrets. The test file fails if one is found. */
export function search(text: string): void {
  if (text !== '') found.push(...secretsIn(text));
}

const { write } = process.stderr;
/** Log lines of services in this process are searched, but not printed. */
process.stderr.write = ((...given: Parameters<typeof write>) => {
  const [chunk] = given;
  const text = String(chunk);
  if (!text.startsWith('{"level":')) return write.apply(process.stderr, given);
  search(text);
  return true;
}) as typeof write;

after(() => assert.deepEqual(found, [], 'secrets were logged'));
