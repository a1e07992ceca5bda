// Login: login and logout as API and as pages, a person's own page, forgotten passwords.
// May import engine, secrets, identity, throttling, mail, screens, members, second-factor.

export type { Candidate } from './candidates.ts';
export { addLoginLinks, type LoginLink } from './links.ts';
export { loginModule } from './module.ts';
