// Second factors: authenticator apps, recovery codes and passkeys, and the pages to set them up.
// May import engine, secrets, identity, rate-limiting, admin-ui/shell.

export { secondFactorModule } from './module.ts';
