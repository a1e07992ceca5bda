import type { IdentityServices } from '../identity/index.ts';
import type { Mailer } from '../mail/index.ts';
import type { ThrottlingConfig } from '../throttling/index.ts';

/** The services that logins and their pages need. */
export interface LoginServices extends IdentityServices {
  readonly config: IdentityServices['config'] & ThrottlingConfig;
  readonly mailer: Mailer;
}
