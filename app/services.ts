import type { FastifyInstance } from 'fastify';
import type { Resource } from '../engine/compile/index.ts';
import type { Database } from '../engine/database/index.ts';
import type { JsonSchema } from '../engine/fields/index.ts';
import type { Metrics } from '../engine/modules/index.ts';
import type { InstanceSecrets } from '../plugins/access/secrets/index.ts';
import type { Mailer } from '../plugins/operations/mail/index.ts';
import type { ConfiguredSlugs } from '../plugins/tenants/organizations/index.ts';
import type { LiveSettings, Settings, SettingsFile } from '../webhooks/settings/index.ts';
import type { Config } from './config.ts';

/** An open instance, for the commands of modules. */
export interface Instance {
  readonly config: Config;
  readonly resources: readonly Resource[];
  readonly database: Database;
  readonly secrets: InstanceSecrets;
  /** The whole service on this database, not listening yet. */
  readonly service: () => Promise<FastifyInstance>;
  /** The slugs named in config.yaml. */
  readonly configuredSlugs: () => Promise<ConfiguredSlugs>;
}

/** An instance that may not be well, for checks: each gets the parts that it needs, where they can be had. */
export interface DoctorTarget extends Pick<Instance, 'config' | 'resources' | 'database' | 'secrets'> {
  readonly settings: Settings;
  readonly settingsFile: SettingsFile;
}

/** A running service, for modules. */
export interface Services extends Instance {
  /** The current settings (config.yaml). */
  readonly settings: LiveSettings;
  readonly publicUrl: () => string;
  readonly mailer: Mailer;
  /** The current settings of logins. */
  readonly login: () => Settings['login'];
  readonly newOrganizations: () => Settings['new_organizations'];
  /** Makes the OpenAPI document. */
  readonly description: () => Promise<JsonSchema>;
  /** The versions of what serves, for operators. */
  readonly versions: Readonly<Record<string, string>>;
  /** What operators watch of all modules. */
  readonly metrics: () => readonly Metrics[];
  /** The pages that modules add to the setup screens. */
  readonly pages: readonly ((screens: FastifyInstance) => void)[];
}
