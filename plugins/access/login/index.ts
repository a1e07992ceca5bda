// Login: login and logout in the API and the admin UI, the user's own page, and password resets.
// May import engine, secrets, identity, rate-limiting, members, second-factor, admin-ui/shell, operations/mail.

import type { Module } from '../../../engine/modules/index.ts';
import { addDoneTexts } from '../../admin-ui/shell/index.ts';
import { loginFragment } from './description.ts';
import { type LoginServices, login } from './login.ts';
import { loginPages } from './pages.ts';
import { passkeyLogin } from './passkey.ts';
import { personalPages } from './personal-pages.ts';
import { resetPages } from './reset.ts';
import { secondStep } from './second-step.ts';

export { addLoginLinks } from './login.ts';

/** Login and logout in the API and the admin UI, the user's own page, and password resets. */
export const loginModule: Module<LoginServices> = {
  name: 'login',
  openApi: loginFragment,
  register: async (app, services) => {
    await app.register(login, services);
  },
  pages: (app, services) => {
    addDoneTexts(app, {
      'session-ended': 'Session ended.',
      'name-changed': 'Name saved.',
      'password-changed': 'Password changed. All other sessions have been logged out.',
      'logged-out': 'You have been logged out.',
      'reset-mailed':
        'If a user with that email address exists, an email with a link and a code is on its way. The link is valid for an hour.',
      'password-reset': 'Password changed. All sessions have been logged out. Log in with the new password.',
      'invite-accepted': 'Welcome. Log in with your email address and password.',
    });
    loginPages(app, services);
    secondStep(app, services);
    passkeyLogin(app, services);
    resetPages(app, services);
    personalPages(app, services);
  },
};
