// OAuth: an authorization server for connectors, for example assistants. Clients act for members, through keys on their behalf.
// May import engine, secrets, identity, rate-limiting, admin-ui/shell, profiles, api-keys, login.

import { type Module, startRetention } from '../../../engine/modules/index.ts';
import { acceptsAccessTokens, accessTokens } from './access-tokens.ts';
import { appPages, appsRetention } from './apps.ts';
import { consentPage } from './consent-page.ts';
import { clientRegistry, clientsRetention } from './registration.ts';
import { oauthRoutes } from './routes.ts';
import { addIssuer, type OAuthServices } from './services.ts';
import { oauthTables } from './tables.ts';

export { type ConnectorSettings, isMcpEnabled, mcpPath, resourceMetadataUrl } from './services.ts';

/** An OAuth authorization server. */
export const oauthModule: Module<OAuthServices> = {
  name: 'oauth',
  tables: oauthTables,
  register: async (app, services) => {
    addIssuer(app, services);
    const tokens = accessTokens(services.secrets);
    app.keyTokens.push(async (request, token) => {
      const issuer = acceptsAccessTokens(request) ? app.oauthIssuer(request) : undefined;
      return issuer === undefined ? undefined : tokens.verify(issuer, token);
    });
    await oauthRoutes(app, services, tokens);
    startRetention(app, services.database, { label: 'ended connected apps', steps: [appsRetention] });
    startRetention(app, services.database, { label: 'unused OAuth clients', steps: [clientsRetention] });
  },
  pages: (app, services) => {
    consentPage(app, services, clientRegistry(services));
    appPages(app, services);
  },
};
