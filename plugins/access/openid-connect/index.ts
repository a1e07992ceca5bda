// OpenID Connect: people log in at providers that config.yaml names.
// May import engine, secrets, identity, screens, profiles, members, login.

export { openIdConnectModule } from './module.ts';
export type { ProviderSettings } from './providers.ts';
