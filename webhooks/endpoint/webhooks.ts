import type { Resource } from '../../engine/compile/index.ts';
import type { Database } from '../../engine/database/index.ts';
import type { Module } from '../../engine/modules/index.ts';
import type { InstanceSecrets } from '../../plugins/access/secrets/index.ts';
import { type LiveSettings, settingsVariables } from '../settings/index.ts';
import { type SecretUse, secretUse } from './secret-use.ts';
import { secretUseTables } from './tables.ts';
import { type WrongSecrets, wrongSecrets } from './wrong-secrets.ts';

/** Services that webhooks require. */
export interface WebhookServices {
  readonly database: Database;
  readonly resources: readonly Resource[];
  readonly secrets: InstanceSecrets;
  readonly settings: LiveSettings;
}

/** Context shared by all endpoints. */
export interface Webhooks extends WebhookServices {
  /** Tracks the last use of each secret, so that unused secrets can be removed. */
  readonly secretUse: SecretUse;
  /** Counts wrong secrets to rate-limit clients that guess secrets. */
  readonly wrongSecrets: WrongSecrets;
  readonly log: (details: object, text: string) => void;
}

declare module 'fastify' {
  interface FastifyInstance {
    webhooks: Webhooks;
  }
}

/** Services shared by the partner endpoints: tracking of secret use and rate limiting of wrong secrets. */
export const endpoint: Module<WebhookServices> = {
  name: 'endpoint',
  tables: secretUseTables,
  variables: settingsVariables,
  openApi: {
    tag: {
      name: 'partners',
      description:
        'Endpoints for partners, outside of /api/v1. Each has its own secret; organization API keys are not accepted.',
    },
    securitySchemes: {
      inboundSecret: {
        type: 'apiKey',
        in: 'header',
        name: 'X-Inbound-Secret',
        description: 'The secret for inbound leads, from config.yaml.',
      },
      partnerToken: {
        type: 'http',
        scheme: 'bearer',
        description: "A partner endpoint's own secret, from config.yaml.",
      },
    },
  },
  register: (app, { database, resources, secrets, settings }) => {
    app.decorate('webhooks', {
      database,
      resources,
      secrets,
      settings,
      secretUse: secretUse(app, database),
      wrongSecrets: wrongSecrets(),
      log: (details, text) => app.log.info(details, text),
    });
  },
};
