import { Secret, TOTP } from 'otpauth';
import { renderSVG } from 'uqr';

/** Length of a time step in seconds, and the number of steps accepted before and after the current one. */
const period = 30;
const window = 1;

/** TOTP with the parameters that every authenticator app supports (RFC 6238): SHA-1, six digits, 30 seconds. */
const totp = (secret: string, label = '') =>
  new TOTP({ issuer: 'CRM', label, secret: Secret.fromBase32(secret), period });

/** Generates a secret for an authenticator app: 160 bits, encoded in base32. */
export const generateTotpSecret = (): string => new Secret({ size: 20 }).base32;

/** Returns the time step of a code, or undefined if the code is wrong. */
export function stepOf(secret: string, code: string): number | undefined {
  const delta = totp(secret).validate({ token: code, window });
  return delta === null ? undefined : Math.floor(Date.now() / 1000 / period) + delta;
}

/**
 * Renders the QR code from which an authenticator app reads a secret, as SVG.
 * @param email the account name shown in the app
 */
export const qrCode = (secret: string, email: string): string =>
  renderSVG(totp(secret, email).toString(), { border: 2 });
