import type { Catalogue } from '../../../admin-ui/shell/index.ts';

/** English texts of the login with a provider. */
export default {
  logInWith: 'Log in with {provider}',
  unreachable: '{provider} cannot be reached. Try again, or log in with your password.',
  rejected: '{provider} did not log you in. Try again, or log in with your password.',
  invalidResponse: 'The response from {provider} is not valid. Try again, or log in with your password.',
  stale:
    'This login was started in another browser, was already completed, or took longer than ten minutes. Try again.',
  readOnly: 'This instance is read-only, so {provider} cannot be linked now. Try again later.',
  unverified: '{provider} has not verified your email address, so it cannot be linked to a user.',
  alreadyLinked:
    'You are already linked to another login at {provider}. The operator of this instance can remove that link.',
  disabled: 'Your user is disabled. Ask the operator of this instance.',
  severalUsers:
    'Several users have the email address {email}, and {provider} did not indicate which one is yours. Reset the password of one to verify it, or ask the operator of this instance.',
  notRegistered: '{email} is not registered here. Ask an administrator of your organization to invite you.',
} as const satisfies Catalogue;
