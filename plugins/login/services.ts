import type { IdentityServices } from '../identity/index.ts';
import type { Mailer } from '../mail/index.ts';

/** What logins and their pages need of the service. */
export interface LoginServices extends IdentityServices {
  readonly mailer: Mailer;
}
