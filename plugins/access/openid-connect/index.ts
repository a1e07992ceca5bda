// OpenID Connect: logins at the providers in config.yaml.
// May import engine, secrets, identity, profiles, members, login, admin-ui/shell.

export { openIdConnectModule } from './module.ts';
export type { ProviderSettings } from './providers.ts';
