import { domainToASCII } from 'node:url';
import { UserError } from '../../../engine/errors.ts';

/** Matches an unquoted local part: RFC 5322 atext characters, separated by dots. */
const localPart = /^[a-z0-9!#$%&\x27*+/=?^_\x60{|}~-]+(?:\.[a-z0-9!#$%&\x27*+/=?^_\x60{|}~-]+)*$/;
const domainPart = /^[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?$/;

/**
 * Normalizes an email address to the form that is stored, looked up and rate limited: NFKC, lower case, and an ASCII
 * domain (IDNA). Rejects non-ASCII local parts, because some of their characters look identical.
 * @returns undefined if the text is not an email address
 */
export function parseEmail(text: string): string | undefined {
  // No email address is this long. Rejected early, because normalization takes time proportional to the length.
  if (text.length > 1000) return undefined;
  const normal = text.normalize('NFKC').trim().toLowerCase();
  const at = normal.lastIndexOf('@');
  const local = normal.slice(0, Math.max(at, 0));
  const domainText = normal.slice(at + 1).replace(/[.\u3002]$/, '');
  // The URL parser silently drops some characters of a host, so they are rejected first.
  const domain = /[\s\p{Cc}\p{Cf}\p{Default_Ignorable_Code_Point}/?#@:\\%]/u.test(domainText)
    ? ''
    : domainToASCII(domainText);
  const email = `${local}@${domain}`;
  return localPart.test(local) && domainPart.test(domain) && !domain.includes('..') && email.length <= 254
    ? email
    : undefined;
}

/** Normalizes an email address like {@link parseEmail}. @throws UserError if the text is not an email address */
export function normalEmail(text: string): string {
  const email = parseEmail(text);
  if (email === undefined) throw new UserError('this is not a valid email address');
  return email;
}
