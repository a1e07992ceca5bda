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
import { loginTexts } from './texts/index.ts';

export { addLoginLinks, addPersonalSection } from './login.ts';

/** Login and logout in the API and the admin UI, the user's own page, and password resets. */
export const loginModule: Module<LoginServices> = {
  name: 'login',
  openApi: loginFragment,
  register: async (app, services) => {
    await app.register(login, services);
  },
  pages: (app, services) => {
    addDoneTexts(app, {
      'session-ended': loginTexts.later('sessionEnded'),
      'name-changed': loginTexts.later('nameSaved'),
      'language-changed': loginTexts.later('languageSaved'),
      'password-changed': loginTexts.later('passwordChanged'),
      'logged-out': loginTexts.later('loggedOut'),
      'reset-mailed': loginTexts.later('resetMailed'),
      'password-reset': loginTexts.later('passwordReset'),
      'invite-accepted': loginTexts.later('invitationAccepted'),
    });
    loginPages(app, services);
    secondStep(app, services);
    passkeyLogin(app, services);
    resetPages(app, services);
    personalPages(app, services);
  },
};
