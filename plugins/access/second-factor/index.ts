// Second factors: codes of authenticator apps, recovery codes, passkeys; the pages on which people set them up.
// May import engine, secrets, identity, throttling, screens.

export { secondFactorModule } from './module.ts';
