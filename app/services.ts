import type { FastifyInstance } from 'fastify';
import type { Resource } from '../engine/compile/index.ts';
import type { Environment, VariableValues } from '../engine/config/index.ts';
import type { Database } from '../engine/database/index.ts';
import type { JsonSchema } from '../engine/fields/index.ts';
import type { Metrics, Module } from '../engine/modules/index.ts';
import type { InstanceSecrets } from '../plugins/access/secrets/index.ts';
import type { Mailer } from '../plugins/operations/mail/index.ts';
import type { ConfiguredSlugs } from '../plugins/tenants/organizations/index.ts';
import type { ChannelModule } from '../webhooks/channels/index.ts';
import type { LiveSettings, Settings, SettingsFile } from '../webhooks/settings/index.ts';
import type { variables } from './variables.ts';

/**
 * The values of the environment variables, the environment for `${NAME}` in config.yaml, and the modules, which define the rest
 * of the configuration.
 */
export type Config = VariableValues<typeof variables> & {
  readonly stopDelayMs: number;
  readonly environment: Environment;
  /** The engine's own modules, followed by the modules in config.yaml. */
  readonly modules: readonly InstanceModule[];
};

/** A module of an instance. */
export type InstanceModule = Module<Services, Instance, DoctorTarget, Config> & ChannelModule;

/** The modules of an instance, in the order of their registration. */
export type ModuleList = Pick<Config, 'modules'>;

/** An open instance, as passed to module commands. */
export interface Instance {
  readonly config: Config;
  readonly resources: readonly Resource[];
  /** Resources of which only the tables and records still exist. Absent if no resource is retired. */
  readonly retiredResources?: readonly Resource[];
  readonly database: Database;
  readonly secrets: InstanceSecrets;
  /** Builds the service on the instance's database, without listening. */
  readonly service: () => Promise<FastifyInstance>;
  /** Returns the organization slugs in config.yaml. */
  readonly configuredSlugs: () => Promise<ConfiguredSlugs>;
}

/**
 * The parts of an instance that checks can use. Each check receives only the parts it needs, and is skipped
 * if one of these parts is not available.
 */
export interface DoctorTarget extends Pick<Instance, 'config' | 'resources' | 'database' | 'secrets'> {
  readonly settings: Settings;
  readonly settingsFile: SettingsFile;
}

/** A running service, as passed to modules. */
export interface Services extends Instance {
  /** The current settings (config.yaml). */
  readonly settings: LiveSettings;
  readonly publicUrl: () => string;
  readonly mailer: Mailer;
  /** Returns the current login settings. */
  readonly login: () => Settings['login'];
  readonly newOrganizations: () => Settings['new_organizations'];
  /** Generates the OpenAPI document. */
  readonly description: () => Promise<JsonSchema>;
  /** Software versions and the latest migration, for operators. */
  readonly versions: Readonly<Record<string, string>>;
  /** Returns the metrics of all modules. */
  readonly metrics: () => readonly Metrics[];
  /** Functions that add the modules' pages to the admin UI. */
  readonly pages: readonly ((screens: FastifyInstance) => void)[];
}
