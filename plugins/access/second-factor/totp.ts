import { Secret, TOTP } from 'otpauth';
import { renderSVG } from 'uqr';

/** Seconds of a time step, and how many steps before and after the current one are accepted. */
const period = 30;
const window = 1;

/** What every authenticator app supports (RFC 6238): SHA-1, six digits, 30 seconds. */
const totp = (secret: string, label = '') =>
  new TOTP({ issuer: 'CRM', label, secret: Secret.fromBase32(secret), period });

/** A new secret for an authenticator app: 160 bits, base32. */
export const makeTotpSecret = (): string => new Secret({ size: 20 }).base32;

/** The time step of a code; undefined if it is wrong. */
export function stepOf(secret: string, code: string): number | undefined {
  const delta = totp(secret).validate({ token: code, window });
  return delta === null ? undefined : Math.floor(Date.now() / 1000 / period) + delta;
}

/** The QR code with which an authenticator app takes a secret, as SVG. @param email names the account in the app */
export const qrCode = (secret: string, email: string): string =>
  renderSVG(totp(secret, email).toString(), { border: 2 });
