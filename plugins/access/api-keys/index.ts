// API keys: creation, rotation, revocation and authentication.
// May import engine, last-used, identity, profiles, admin-ui/shell, tenants/quotas.

import type { Resource } from '../../../engine/compile/index.ts';
import type { Database } from '../../../engine/database/index.ts';
import type { AuditConfig } from '../../../engine/effects/index.ts';
import type { Module } from '../../../engine/modules/index.ts';
import type { QuotaSettings } from '../../tenants/quotas/index.ts';
import { type KeyConfig, keyAuthentication, keyVariables } from './authentication.ts';
import { expiringKeys } from './check.ts';
import { keyPages } from './page.ts';
import { apiKeyTables } from './tables.ts';

export { type KeyConfig, type KeyToken, keyVariables } from './authentication.ts';
export { accessInput, accessLine, accessSql, type KeyAccess, keyAccessOf } from './key-access.ts';
export { createKey, keyStates, revokeAllKeys, revokeKey, revokeKeysOnBehalfOf } from './keys.ts';

interface Services {
  readonly config: KeyConfig & AuditConfig;
  readonly database: Database;
  readonly resources: readonly Resource[];
  readonly settings: { readonly current: { readonly quotas: QuotaSettings } };
}

/** API keys, which programs use to authenticate. */
export const apiKeysModule: Module<
  Services,
  Pick<Services, 'config' | 'database'>,
  { readonly database: Database }
> = {
  name: 'api-keys',
  tables: apiKeyTables,
  variables: keyVariables,
  openApi: {
    security: [{ apiKey: [] }],
    securitySchemes: {
      apiKey: {
        type: 'http',
        scheme: 'bearer',
        description: 'An organization API key: `Authorization: Bearer <key>`.',
      },
    },
  },
  register: async (app, services) => {
    await app.register(keyAuthentication, services);
  },
  pages: keyPages,
  commands: async (line) => (await import('./commands.ts')).keyCommands(line),
  checks: [expiringKeys],
};
