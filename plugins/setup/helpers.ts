import type handlebars from 'handlebars';

type Engine = typeof handlebars;

/** What a page says after something was done, by the code in `?done=`: texts never come from an address. */
export const doneTexts: Readonly<Record<string, string>> = {
  'key-revoked': 'The key is revoked. Every node refuses it within a second.',
  'member-changed': 'The member has another profile.',
  'member-removed': 'The member is removed.',
  'invite-cancelled': 'The invitation is taken back.',
  'profile-created': 'The profile is made. Choose what it grants.',
  'profile-changed': 'The profile is changed.',
  'profile-deleted': 'The profile is deleted.',
  'integration-on': 'The integration is on.',
  'integration-off': 'The integration is off: its address answers 404, and what waits is kept.',
  'integration-secrets': 'The new secrets are stored, encrypted.',
  'integration-removed': 'The integration and its deliveries are removed.',
  replayed: 'The delivery is processed again.',
  'session-ended': 'That session is ended.',
  'password-changed': 'The password is changed, and every other session is ended.',
  'logged-out': 'You are logged out.',
  'reset-mailed':
    'If there is a user with that address, a mail with a link and a code is on its way. It works for an hour.',
  'password-reset': 'The password is changed, and every session is ended. Log in with the new one.',
  'invite-accepted': 'Welcome. Log in with your e-mail address and password.',
};

/** Adds the helpers that the views use. Handlebars escapes what they return. */
export function withHelpers(engine: Engine): Engine {
  engine.registerHelper('time', (value: Date | string | null | undefined) => {
    if (value == null) return 'never';
    const iso = new Date(value).toISOString();
    const text = `${iso.slice(0, 10)} ${iso.slice(11, 16)} UTC`;
    return new engine.SafeString(`<time datetime="${iso}">${text}</time>`);
  });
  engine.registerHelper('equal', (a: unknown, b: unknown) => a === b);
  return engine;
}
