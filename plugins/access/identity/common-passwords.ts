import { UserError } from '../../../engine/errors.ts';

/** Common passwords in lower case, loaded when the first password is chosen: most processes never need them. */
let common: Promise<ReadonlySet<string>> | undefined;
const commonPasswords = () => {
  common ??= import('@zxcvbn-ts/language-common').then(
    ({ dictionary }) => new Set(dictionary['passwords-common']),
  );
  return common;
};

/** Letters and digits alone, in lower case: `Ada.Lovelace!` becomes `adalovelace`. */
const bare = (text: string): string =>
  text
    .normalize('NFKC')
    .toLowerCase()
    .replace(/[^\p{L}\p{N}]/gu, '');
/** The same without leading and trailing digits: a number at the end does not make a password better. */
const word = (text: string): string => bare(text).replace(/^\p{N}+|\p{N}+$/gu, '');

/**
 * Refuses passwords that attackers try first: common ones, and parts of the user's address.
 * @throws UserError with the reason
 */
export async function rejectGuessable(password: string, email: string): Promise<void> {
  const [local = '', domain = ''] = email.split('@');
  const names = [email, local, domain, domain.split('.')[0] ?? ''].map(bare).filter((name) => name !== '');
  if (names.some((name) => bare(password) === name || word(password) === (word(name) || name))) {
    throw new UserError('the password must not be the user’s email address or name');
  }
  const known = await commonPasswords();
  const forms = [password.toLowerCase(), bare(password)];
  if (forms.some((form) => known.has(form))) {
    throw new UserError('this password is too common. Choose another.');
  }
}
