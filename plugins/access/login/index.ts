// Login: login and logout in the API and the admin UI, the user's own page, and password resets.
// May import engine, secrets, identity, rate-limiting, members, second-factor, admin-ui/shell, operations/mail.

export { addLoginLinks } from './login.ts';
export { loginModule } from './module.ts';
