import type { Mailer } from '../../operations/mail/index.ts';
import type { IdentityServices } from '../identity/index.ts';
import type { RateLimitingConfig } from '../rate-limiting/index.ts';

/**
 * Options of routes that start or end sessions. Unlike other writes, these are also allowed on a read-only instance.
 */
export const sessionRoute = { isServedReadOnly: true } as const;

/** The services that logins and their pages need. */
export interface LoginServices extends IdentityServices {
  readonly config: IdentityServices['config'] & RateLimitingConfig;
  readonly mailer: Mailer;
}
