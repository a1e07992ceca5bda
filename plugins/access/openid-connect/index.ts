// OpenID Connect: logins at the providers in config.yaml.
// May import engine, secrets, identity, profiles, members, login, admin-ui/shell.

import type { Module } from '../../../engine/modules/index.ts';
import { type CheckedProviders, providersCheck } from './check.ts';
import { type OpenIdServices, openIdPages } from './pages.ts';

export type { ProviderSettings } from './providers.ts';

/** Logins at OpenID Connect providers. */
export const openIdConnectModule: Module<OpenIdServices, unknown, CheckedProviders> = {
  name: 'openid-connect',
  pages: openIdPages,
  checks: [providersCheck],
};
