import type { Mailer } from '../../operations/mail/index.ts';
import type { IdentityServices } from '../identity/index.ts';
import type { RateLimitingConfig } from '../rate-limiting/index.ts';

/** Of routes by which sessions begin and end: that is possible at any time. */
export const sessionRoute = { isServedReadOnly: true } as const;

/** The services that logins and their pages need. */
export interface LoginServices extends IdentityServices {
  readonly config: IdentityServices['config'] & RateLimitingConfig;
  readonly mailer: Mailer;
}
