import { hash } from 'node:crypto';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import { RateLimiterRes } from 'rate-limiter-flexible';
import type { Resource } from '../../engine/compile/index.ts';
import type { Database } from '../../engine/database/index.ts';
import { errors, type HttpError } from '../../engine/errors.ts';
import type { Module } from '../../engine/modules/index.ts';
import {
  defineTable,
  type Tables,
  tablesOf,
  textColumn,
  timestampColumn,
} from '../../engine/tables/index.ts';
import { lastUsed } from '../../plugins/access/last-used/index.ts';
import { failureCounter, networkOf } from '../../plugins/access/rate-limiting/index.ts';
import type { InstanceSecrets } from '../../plugins/access/secrets/index.ts';
import { type LiveSettings, settingsVariables } from '../settings/index.ts';

declare module '../../engine/tables/index.ts' {
  interface TableRows {
    crm_secret_uses: { endpoint: string; fingerprint: string; last_used_at: Date };
  }
}

const secretUsesTable = defineTable('crm_secret_uses', {
  endpoint: { ...textColumn, primary: true },
  fingerprint: { ...textColumn, primary: true },
  last_used_at: timestampColumn,
});

/** Table that stores when each partner secret was last used. */
const secretUseTables = [secretUsesTable];

/** Tracks when secrets were last used. */
interface SecretUse {
  readonly record: (endpoint: string, secret: string) => void;
}

/** Returns an identifier for a secret that does not reveal the secret. */
export const fingerprint = (secret: string): string =>
  hash('sha256', `fingerprint of ${secret}`, 'hex').slice(0, 16);

/** Collects secret uses and stores them periodically. */
function secretUse(app: FastifyInstance, database: Database): SecretUse {
  const uses = lastUsed<{ endpoint: string; fingerprint: string; at: Date }>(app, async (batch) => {
    for (const { endpoint, fingerprint, at } of batch.values()) {
      await tablesOf(database)
        .insertInto('crm_secret_uses')
        .values({ endpoint, fingerprint, last_used_at: at })
        .onConflict((conflict) =>
          conflict
            .columns(['endpoint', 'fingerprint'])
            .doUpdateSet({ last_used_at: at })
            // Another node can have stored a later use.
            .where('crm_secret_uses.last_used_at', '<', at),
        )
        .execute();
    }
  });
  return {
    record: (endpoint, secret) => {
      const print = fingerprint(secret);
      uses.record(`${endpoint} ${print}`, { endpoint, fingerprint: print, at: new Date() });
    },
  };
}

/** Returns when each secret was last used, keyed by endpoint and fingerprint, separated by a space. */
export async function secretUses(tables: Tables): Promise<ReadonlyMap<string, Date>> {
  const rows = await tables.selectFrom('crm_secret_uses').selectAll().execute();
  return new Map(rows.map((row) => [`${row.endpoint} ${row.fingerprint}`, row.last_used_at]));
}

/**
 * Maximum number of wrong secrets per IP address and endpoint within the time window. After that, wrong
 * secrets receive a 429 response.
 */
const maxWrong = 100;

/** Counts wrong secrets on this node per endpoint and IP address. */
interface WrongSecrets {
  /**
   * Counts a wrong secret or signature and returns the error to throw: `otherwise`, or 429 with a
   * `Retry-After` header after `maxWrong` failures. Valid secrets are always accepted, even if
   * other clients at the same IP address are guessing secrets.
   */
  readonly errorFor: (request: FastifyRequest, endpoint: string, otherwise?: HttpError) => Promise<HttpError>;
}

/** Creates a counter for wrong secrets. */
function wrongSecrets(): WrongSecrets {
  const counts = failureCounter('wrong secrets', maxWrong);
  return {
    errorFor: async (request, endpoint, otherwise = errors.unauthenticated()) => {
      try {
        await counts.consume(`${endpoint} ${networkOf(request)}`);
        return otherwise;
      } catch (rejection) {
        if (!(rejection instanceof RateLimiterRes)) throw rejection;
        return errors.tooManyAttempts(Math.max(1, Math.ceil(rejection.msBeforeNext / 1000)));
      }
    },
  };
}

/** Services required for webhooks. */
export interface WebhookServices {
  readonly database: Database;
  readonly resources: readonly Resource[];
  /** Resources that endpoints and channels cannot write. */
  readonly retiredResources?: readonly Resource[];
  readonly secrets: InstanceSecrets;
  readonly settings: LiveSettings;
}

/** Context shared by all endpoints. */
export interface Webhooks extends WebhookServices {
  /** Tracks when each secret was last used, so that unused secrets can be removed. */
  readonly secretUse: SecretUse;
  /** Counts wrong secrets to rate-limit clients that guess secrets. */
  readonly wrongSecrets: WrongSecrets;
  readonly log: (details: object, text: string) => void;
  /** Logs a warning. */
  readonly warn: (details: object, text: string) => void;
}

declare module 'fastify' {
  interface FastifyInstance {
    webhooks: Webhooks;
  }
}

/** Services shared by the partner endpoints: tracking secret use, and rate limiting for wrong secrets. */
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
  register: (app, { database, resources, retiredResources = [], secrets, settings }) => {
    app.decorate('webhooks', {
      database,
      resources,
      retiredResources,
      secrets,
      settings,
      secretUse: secretUse(app, database),
      wrongSecrets: wrongSecrets(),
      log: (details, text) => app.log.info(details, text),
      warn: (details, text) => app.log.warn(details, text),
    });
  },
};
