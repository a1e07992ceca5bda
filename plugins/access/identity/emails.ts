import { domainToASCII } from 'node:url';
import { UserError } from '../../../engine/errors.ts';

/** Characters of an unquoted local part (RFC 5322, atext), with dots between them. */
const localPart = /^[a-z0-9!#$%&\x27*+/=?^_\x60{|}~-]+(?:\.[a-z0-9!#$%&\x27*+/=?^_\x60{|}~-]+)*$/;
const domainPart = /^[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?$/;

/**
 * The one form in which an e-mail address is stored, looked up and counted: NFKC, lower case, the domain in its
 * ASCII form (IDNA). A local part outside of ASCII is refused, because some letters there look the same.
 * @returns undefined where the text is not such an address
 */
export function parseEmail(text: string): string | undefined {
  // Longer than any address: normalization takes time in proportion to the text.
  if (text.length > 1000) return undefined;
  const normal = text.normalize('NFKC').trim().toLowerCase();
  const at = normal.lastIndexOf('@');
  const local = normal.slice(0, Math.max(at, 0));
  const written = normal.slice(at + 1).replace(/[.\u3002]$/, '');
  // The URL parser drops some characters of a host silently; an address with them is a mistake.
  const domain = /[\s\p{Cc}\p{Cf}\p{Default_Ignorable_Code_Point}/?#@:\\%]/u.test(written)
    ? ''
    : domainToASCII(written);
  const email = `${local}@${domain}`;
  return localPart.test(local) && domainPart.test(domain) && !domain.includes('..') && email.length <= 254
    ? email
    : undefined;
}

/** As {@link parseEmail}. @throws UserError if the text is not an e-mail address */
export function normalEmail(text: string): string {
  const email = parseEmail(text);
  if (email === undefined) throw new UserError('that is not an email address');
  return email;
}
