import type { FastifyInstance } from 'fastify';
import type { Fragment, Resource } from '../engine/compile/index.ts';
import type { Database } from '../engine/database/index.ts';
import type { Mailer } from '../plugins/mail/index.ts';
import type { InstanceSecrets } from '../plugins/secrets/index.ts';
import type { LiveSettings } from '../webhooks/settings/index.ts';
import type { Config } from './config.ts';

/** An open instance: what commands of modules get. */
export interface Instance {
  readonly config: Config;
  readonly resources: readonly Resource[];
  readonly database: Database;
  readonly secrets: InstanceSecrets;
  /** The whole service on this database, not listening yet. */
  readonly service: () => Promise<FastifyInstance>;
}

/** A running service: what modules get. */
export interface Services extends Instance {
  /** config.yaml, as it is at the moment. */
  readonly settings: LiveSettings;
  readonly publicUrl: () => string;
  readonly mailer: Mailer;
  /** What modules and resources add to the description. */
  readonly fragments: readonly Fragment[];
  readonly version: string;
  /** What modules add to the setup screens. */
  readonly pages: readonly ((screens: FastifyInstance) => void)[];
}
