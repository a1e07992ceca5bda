// App: builds the service and the command line from the environment and the list of modules.
// Can import every module. Only entry points import it.
import type { FastifyInstance } from 'fastify';
import { compileResource, type Fragment, type Resource, recordExamples } from '../../engine/compile/index.ts';
import { checkSources, readSources } from '../../engine/definition/index.ts';
import { enabledEffects } from '../../engine/effects/index.ts';
import type { JsonSchema } from '../../engine/fields/index.ts';
import {
  addReadOnlyMode,
  apiPrefix,
  cors,
  crud,
  httpServer,
  importRoutes,
  logRejection,
  openApiDocument,
} from '../../engine/http/index.ts';
import { backgroundWork } from '../../engine/modules/index.ts';
import type { ModuleCode } from '../../engine/records/index.ts';
import { migrationNames } from '../../engine/schema/index.ts';
import { organizationSlugs, tablesOf } from '../../engine/tables/index.ts';
import { lineOf, type Source } from '../../engine/yaml/index.ts';
import { signing } from '../../plugins/access/secrets/index.ts';
import { firstSamples } from '../../plugins/operations/demo/index.ts';
import { mailer } from '../../plugins/operations/mail/index.ts';
import {
  assertServed,
  configuredSlugs,
  disabledEndpoints,
  liveSettings,
  type SettingsFile,
  unknownOrganizations,
  withoutSlash,
} from '../../webhooks/settings/index.ts';
import type { Config } from '../config.ts';
import { retiredNeed, servedModules } from '../modules.ts';
import type { Instance, ModuleList, Services } from '../services.ts';
import { version } from '../version.ts';

declare module 'fastify' {
  interface FastifyInstance {
    /** Returns the reason the last change to config.yaml was rejected, or undefined if it is in effect. */
    settingsProblem: () => string | undefined;
  }
}

/** Reads the instance's resource definitions and the shipped ones they extend. */
export const readDefinitions = async (
  config: Pick<Config, 'resources' | 'shippedResources'>,
): Promise<readonly Source[]> => [
  ...(config.shippedResources === null ? [] : await readSources(config.shippedResources, true)),
  ...(await readSources(config.resources)),
];

/** Returns the response headers and errors that modules add to record operations. */
const addedResponses = ({ modules }: ModuleList) => modules.flatMap(({ responses = [] }) => responses);

/** Checks and compiles resource definitions. @throws YamlError with every issue */
export const compileResources = (
  config: Config,
  sources: readonly Source[],
  code: readonly ModuleCode[] = config.modules,
): readonly Resource[] =>
  compileResource(
    checkSources(sources),
    apiPrefix,
    enabledEffects(config),
    addedResponses(config).filter(({ isEnabled }) => isEnabled(config)),
    code,
  );

/** Divides resources into those that the service provides, and retired ones. */
export const divideResources = (
  all: readonly Resource[],
): Required<Pick<Instance, 'resources' | 'retiredResources'>> => ({
  resources: all.filter(({ definition }) => !definition.isRetired),
  retiredResources: all.filter(({ definition }) => definition.isRetired),
});

/**
 * Reads, checks and compiles an instance's resource definitions, including retired ones.
 * @throws YamlError with every issue
 */
export const loadResources = async (config: Config): Promise<readonly Resource[]> =>
  compileResources(config, await readDefinitions(config));

/** Generates an instance's OpenAPI document. Its examples are the first sample record of each resource. */
export async function describeInstance({ config, resources: all }: DescribedInstance): Promise<JsonSchema> {
  const { resources } = divideResources(all);
  const definitions = resources.map(({ definition }) => definition);
  const actions = resources.flatMap((resource) => resource.actions);
  const samples = await firstSamples(config.samples, resources);
  const hasHooks = (resources[0]?.context.hooks.byResource.size ?? 0) > 0;
  const fragments: readonly Fragment[] = [
    ...resources.map(({ name, definition, openApi }) => ({
      ...openApi,
      examples: recordExamples(definition, samples.get(name)),
    })),
    ...servedModules(config, all).flatMap(({ openApi = [] }) =>
      typeof openApi === 'function' ? openApi(definitions, { hasHooks, actions }) : openApi,
    ),
  ];
  const info = { version, contact: { name: 'The operator of this instance' } };
  return openApiDocument(fragments, info, definitions);
}

type DescribedInstance = Pick<Instance, 'resources'> & {
  readonly config: Pick<Config, 'samples' | 'modules'>;
};

/** Interval at which the process that runs background work logs pending notices, in milliseconds. */
const noticesMs = 60_000;

/**
 * Returns a logger for messages that every process would otherwise repeat. Only the process that runs
 * background work writes them.
 */
const singleProcessLog = ({
  log,
  background,
}: FastifyInstance): Pick<FastifyInstance['log'], 'info' | 'error'> => ({
  info: (message: string) => background.isResponsible() && log.info(message),
  error: (message: string) => background.isResponsible() && log.error(message),
});

/**
 * Builds the service. The caller opens and closes the database.
 * @param options the instance. Its resources can include retired ones
 * @param background schedules background work (default: this process runs all of it)
 */
export async function buildService(
  options: Omit<Instance, 'service' | 'configuredSlugs'>,
  background = backgroundWork(),
): Promise<FastifyInstance> {
  const instance = {
    ...options,
    ...divideResources([...options.resources, ...(options.retiredResources ?? [])]),
  };
  const { config, resources, database } = instance;
  const app = await httpServer(config, database, resources);
  app.decorate('background', background);
  database.reportRejection = (requestId, cause) => logRejection(app.log, requestId, cause);
  app.decorate('retentionRules', []);
  let newSettings: SettingsFile | undefined;
  let servedEntries: readonly string[] | undefined;
  const all = [...resources, ...instance.retiredResources];
  const served = servedModules(config, all);
  const retiredNeedOf = (module: string) => retiredNeed(config, all, module);
  const settings = await liveSettings(
    config,
    singleProcessLog(app),
    async (file) => {
      newSettings = file;
      if (background.isResponsible()) await logNotices();
    },
    (file) => assertServed(file, config.environment, retiredNeedOf),
  );
  /** Logs notices about a settings file that has taken effect, once per file. */
  async function logNotices(): Promise<void> {
    const file = newSettings;
    newSettings = undefined;
    if (file === undefined) return;
    servedEntries ??= file.settings.modules;
    if (String(file.settings.modules) !== String(servedEntries))
      app.log.warn('the modules in config.yaml have changed. Restart the instance to load them.');
    for (const problem of disabledEndpoints(file, config.environment, retiredNeedOf))
      app.log.info(lineOf(problem));
    // Ignore the error, because other code reports an unresponsive database.
    const slugs = await organizationSlugs(tablesOf(database)).catch(() => undefined);
    for (const problem of slugs ? unknownOrganizations(file, slugs) : []) app.log.warn(lineOf(problem));
  }
  background.every(app, 'notes about the settings', noticesMs, logNotices);
  app.addHook('onClose', async () => settings.close());
  addReadOnlyMode(app, () => settings.current.read_only);
  app.decorate('settingsProblem', () => settings.problem);
  const services: Services = {
    ...instance,
    service: () => buildService(instance),
    configuredSlugs: async () => configuredSlugs(settings.current),
    settings,
    publicUrl: () => settings.current.public_url,
    login: () => settings.current.login,
    newOrganizations: () => settings.current.new_organizations,
    mailer: mailer(
      () => settings.current.mail,
      () => settings.current.public_url,
      app.log,
    ),
    description: () => describeInstance({ config, resources: all }),
    versions: {
      version,
      node: process.version,
      database: database.kind,
      migration: migrationNames(config).at(-1) ?? '',
    },
    metrics: () => served.flatMap(({ metrics }) => metrics?.(services) ?? []),
    pages: served.flatMap(({ pages }) => (pages ? [(screens) => pages(screens, services)] : [])),
  };
  for (const module of served) await module.register?.(app, services);
  const linkOptions = {
    publicUrl: () => withoutSlash(services.publicUrl()),
    signing: signing(instance.secrets, 'cursors of lists'),
  };
  await app.register(async (api) => {
    cors(
      api,
      config.corsOrigins,
      addedResponses(config).flatMap(({ headers }) => Object.keys(headers)),
    );
    for (const resource of resources) {
      const { renamedFrom, alias } = resource.definition;
      for (const pathName of [resource.name, ...(alias && renamedFrom ? [renamedFrom] : [])]) {
        const routeOptions = { resource, database, pathName, path: `${apiPrefix}/${pathName}` };
        await api.register(crud, { ...routeOptions, ...linkOptions });
        await api.register(importRoutes, { ...routeOptions, maxBytes: config.importBytes });
      }
    }
  });
  return app;
}
