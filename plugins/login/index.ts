// Login: login and logout as API and as pages, a person's own page, forgotten passwords.
// May import engine, secrets, identity, throttling, mail, screens, members.

export { loginModule } from './module.ts';
