import { UserError } from '../../../engine/errors.ts';

/** An error of users and passwords that pages can show. */
type IdentityReason =
  | { readonly kind: 'passwordLength'; readonly min: number; readonly max: number }
  | {
      readonly kind:
        | 'invalidEmail'
        | 'memberMissing'
        | 'passwordLikeUser'
        | 'passwordTooCommon'
        | 'unusableLink'
        | 'userDisabled'
        | 'verifiedUser';
    }
  | { readonly kind: 'alreadyMember' | 'userExists' | 'userJustAdded'; readonly email: string };

/** An error of users and passwords. The pages of the admin UI explain its reason in the user's language. */
export class IdentityError extends UserError {
  readonly reason: IdentityReason;

  constructor(message: string, reason: IdentityReason) {
    super(message);
    this.reason = reason;
  }
}
