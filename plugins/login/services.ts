import type { IdentityServices } from '../identity/index.ts';
import type { Mailer } from '../mail/index.ts';
import type { ThrottlingConfig } from '../throttling/index.ts';

/** Of routes by which sessions begin and end: that is possible at any time. */
export const ofSession = { isServedReadOnly: true } as const;

/** The services that logins and their pages need. */
export interface LoginServices extends IdentityServices {
  readonly config: IdentityServices['config'] & ThrottlingConfig;
  readonly mailer: Mailer;
}
