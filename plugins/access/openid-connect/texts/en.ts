import type { Catalogue } from '../../../admin-ui/shell/index.ts';

/** English texts of the login with a provider. */
export default {
  logInWith: 'Log in with {provider}',
} as const satisfies Catalogue;
