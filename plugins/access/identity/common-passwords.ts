import { UserError } from '../../../engine/errors.ts';

/**
 * Common passwords in lower case. Loaded when the first password is checked, because most processes never need them.
 */
let passwordSet: Promise<ReadonlySet<string>> | undefined;
const commonPasswords = () => {
  passwordSet ??= import('@zxcvbn-ts/language-common').then(
    ({ dictionary }) => new Set(dictionary['passwords-common']),
  );
  return passwordSet;
};

/** Returns the letters and digits of a text in lower case: `Ada.Lovelace!` becomes `adalovelace`. */
const lettersAndDigits = (text: string): string =>
  text
    .normalize('NFKC')
    .toLowerCase()
    .replace(/[^\p{L}\p{N}]/gu, '');
/**
 * Returns the letters and digits without leading and trailing digits, because a number at the end does not make a
 * password stronger.
 */
const withoutOuterDigits = (text: string): string => lettersAndDigits(text).replace(/^\p{N}+|\p{N}+$/gu, '');

/**
 * Rejects passwords that attackers try first: common ones, and parts of the user's email address.
 * @throws UserError with the reason
 */
export async function rejectGuessable(password: string, email: string): Promise<void> {
  const [local = '', domain = ''] = email.split('@');
  const names = [email, local, domain, domain.split('.')[0] ?? '']
    .map(lettersAndDigits)
    .filter((name) => name !== '');
  if (
    names.some(
      (name) =>
        lettersAndDigits(password) === name ||
        withoutOuterDigits(password) === (withoutOuterDigits(name) || name),
    )
  ) {
    throw new UserError('the password must not be the user’s email address or name');
  }
  const common = await commonPasswords();
  const forms = [password.toLowerCase(), lettersAndDigits(password)];
  if (forms.some((form) => common.has(form))) {
    throw new UserError('this password is too common. Choose another.');
  }
}
