import type { Module } from '../../engine/modules/index.ts';
import { type OpenIdServices, openIdPages } from './pages.ts';

/** Logins at OpenID Connect providers. */
export const openIdConnectModule: Module<OpenIdServices> = {
  name: 'openid-connect',
  pages: openIdPages,
};
