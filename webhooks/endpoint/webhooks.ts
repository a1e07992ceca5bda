import type { Resource } from '../../engine/compile/index.ts';
import type { Database } from '../../engine/database/index.ts';
import type { Module } from '../../engine/modules/index.ts';
import type { InstanceSecrets } from '../../plugins/access/secrets/index.ts';
import { type LiveSettings, settingsVariables } from '../settings/index.ts';
import { type SecretUse, secretUse } from './secret-use.ts';
import { secretUseTables } from './tables.ts';
import { type WrongSecrets, wrongSecrets } from './wrong-secrets.ts';

/** The services that webhooks need. */
export interface WebhookServices {
  readonly database: Database;
  readonly resources: readonly Resource[];
  readonly secrets: InstanceSecrets;
  readonly settings: LiveSettings;
}

/** The context of every endpoint. */
export interface Webhooks extends WebhookServices {
  /** Records which secret was used, so that unused ones can be removed. */
  readonly used: SecretUse;
  /** Counts wrong secrets, to throttle addresses that guess. */
  readonly wrong: WrongSecrets;
  readonly log: (details: object, text: string) => void;
}

declare module 'fastify' {
  interface FastifyInstance {
    webhooks: Webhooks;
  }
}

/** Secrets of partner endpoints: when each was last used, and how often a wrong one was tried. */
export const endpoint: Module<WebhookServices> = {
  name: 'endpoint',
  tables: secretUseTables,
  variables: settingsVariables,
  openApi: {
    tag: {
      name: 'partners',
      description:
        'Endpoints for partners, outside of /api/v1, each with a secret of its own. An organization API key does not open them.',
    },
    securitySchemes: {
      inboundSecret: {
        type: 'apiKey',
        in: 'header',
        name: 'X-Inbound-Secret',
        description: 'The inbound-lead secret.',
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
      used: secretUse(app, database),
      wrong: wrongSecrets(),
      log: (details, text) => app.log.info(details, text),
    });
  },
};
