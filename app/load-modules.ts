import { spawnSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { createRequire, registerHooks } from 'node:module';
import { basename, dirname, extname, join, relative, resolve } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { debuglog } from 'node:util';
import { instanceFolder, packageName, readVariables, type Variables } from '../engine/config/index.ts';
import { UserError } from '../engine/errors.ts';
import type { ActionContext, JobContext, ResourceAction, ResourceHooks } from '../engine/records/index.ts';
import { lineOf, suggestion } from '../engine/yaml/index.ts';
import { moduleChannel } from '../webhooks/channels/index.ts';
import {
  assertSectionSchema,
  type LiveSettings,
  type ModuleEntry,
  ownSenders,
  readModuleEntries,
  readSettings,
  type SettingsConfig,
  sectionOf,
  settingNames,
} from '../webhooks/settings/index.ts';
import { simulatedPartners } from '../webhooks/simulate/index.ts';
import { definitionOf, type ModuleDefinition, type OwnValues } from './define-module.ts';
import { recordAccess } from './module-records.ts';
import { moduleIssues } from './module-shape.ts';
import { modules } from './modules.ts';
import type { Instance, InstanceModule, Services } from './services.ts';

/** Query parameter that makes Node.js load an edited file again. */
const versionParameter = 'crm-version';

const packageUrl = new URL(`./index${extname(import.meta.filename)}`, import.meta.url).href;

let isResolving = false;
/** Makes modules, which can be in any folder, use the running copy of this package. Imports are slower afterwards. */
function resolvePackage(): void {
  if (isResolving) return;
  isResolving = true;
  registerHooks({
    resolve: (specifier, context, next) => {
      if (specifier === packageName) return { url: packageUrl, shortCircuit: true };
      const resolved = next(specifier, context);
      const version =
        context.parentURL === undefined || !URL.canParse(context.parentURL)
          ? null
          : new URL(context.parentURL).searchParams.get(versionParameter);
      const isOwnFile = resolved.url.startsWith('file:') && !resolved.url.includes('/node_modules/');
      return version === null || !isOwnFile
        ? resolved
        : { ...resolved, url: versioned(resolved.url, version) };
    },
  });
}

const versioned = (url: string, version: string): string => `${url}?${versionParameter}=${version}`;

const debug = debuglog('crm');

/** File extensions of modules. */
const extensions = ['.ts', '.mts', '.js', '.mjs'];

/** Returns the path of a module in config.yaml, or undefined if the module is a package. */
export const fileOfModule = (settingsFile: string, specifier: string): string | undefined =>
  /^\.{0,2}\//.test(specifier) ? resolve(dirname(settingsFile), specifier) : undefined;

const displayPath = (path: string): string => {
  const short = relative(process.cwd(), path);
  return short.startsWith('..') ? path : short;
};

/** A loaded module, and the name of its file or package in messages. */
interface Loaded {
  readonly label: string;
  readonly entry: ModuleEntry;
  readonly definition: ModuleDefinition;
}

interface LoadOptions {
  /** Names of the variables that modules cannot declare. */
  readonly usedVariables: readonly string[];
  /** Distinguishes the versions of files that are edited while the process runs. */
  readonly version: number | undefined;
}

/**
 * Loads the modules in config.yaml.
 * @throws UserError with one line per issue
 */
export async function loadModules(
  config: SettingsConfig,
  { usedVariables, version }: LoadOptions,
): Promise<readonly InstanceModule[]> {
  const issues: string[] = [];
  const loaded: Loaded[] = [];
  const entries = await readModuleEntries(config);
  if (entries.length > 0) resolvePackage();
  for (const entry of entries) {
    try {
      loaded.push(await load(config, entry, version));
    } catch (cause) {
      if (!(cause instanceof UserError)) throw cause;
      issues.push(cause.message);
    }
  }
  const own: InstanceModule[] = [];
  for (const { label, entry, definition } of loaded) {
    const ownIssues = [...moduleIssues(definition)];
    if (ownIssues.length === 0) {
      const module = instanceModule(definition, config, () => [...(config.modules ?? []), ...own], ownIssues);
      ownIssues.push(...conflicts(module, own, usedVariables));
      const duplicate = loaded.find((other) => other.definition.name === module.name);
      if (duplicate !== undefined && duplicate.entry !== entry)
        ownIssues.push(`name: "${module.name}" is also the name of ${duplicate.label}`);
      own.push(module);
    }
    issues.push(...ownIssues.map((issue) => `${label}: ${issue}`));
  }
  if (issues.length > 0) throw new UserError(issues.join('\n'));
  return own;
}

/** The files of an instance's modules, for comparison after an edit. */
export interface ModuleFiles {
  /** The folders that contain them. */
  readonly folders: readonly string[];
  /** The contents of all JavaScript and TypeScript files in the folders, because modules can import each of them. */
  readonly text: string;
}

/** Reads the files of the modules in config.yaml, and the files next to them. */
export async function readModuleFiles(config: SettingsConfig): Promise<ModuleFiles> {
  const entries = await readModuleEntries(config);
  const folders = new Set(
    entries
      .map(({ specifier }) => fileOfModule(config.settingsFile, specifier))
      .filter((file) => file !== undefined)
      .map(dirname),
  );
  const texts = [...folders].filter(existsSync).flatMap((folder) =>
    readdirSync(folder)
      .filter((name) => extensions.includes(extname(name)) && !/\.test\.\w+$/.test(name))
      .map((name) => [join(folder, name), readFileSync(join(folder, name), 'utf8')]),
  );
  return { folders: [...folders].filter(existsSync), text: JSON.stringify(texts) };
}

/** Imports a module. @throws UserError with the reason if it cannot be imported or is not a module */
async function load(
  { settingsFile }: SettingsConfig,
  entry: ModuleEntry,
  version: number | undefined,
): Promise<Loaded> {
  const { specifier, issue } = entry;
  const reject = (message: string): never => {
    throw new UserError(lineOf(issue(message)));
  };
  const ownFile = fileOfModule(settingsFile, specifier);
  const file =
    ownFile === undefined ? packageFile(specifier, reject) : assertFile(ownFile, specifier, reject);
  const label = ownFile === undefined ? specifier : displayPath(file);
  const url = pathToFileURL(file).href;
  const isVersioned = version !== undefined && ownFile !== undefined;
  const exported: { readonly default?: unknown } = await import(
    isVersioned ? versioned(url, String(version)) : url
  ).catch((cause: unknown) => {
    debug('%s', cause instanceof Error ? cause.stack : cause);
    throw new UserError(importError(label, file, cause), { cause });
  });
  if (exported.default === undefined)
    throw new UserError(`${label}: has no default export. Write "export default defineModule({ … })".`);
  const definition = definitionOf(exported.default);
  if (definition === undefined)
    throw new UserError(
      `${label}: the default export was not created by defineModule. Write "export default defineModule({ … })".`,
    );
  return { label, entry, definition };
}

/** Returns a file's path, or rejects a file that does not exist or is neither JavaScript nor TypeScript. */
function assertFile(file: string, specifier: string, reject: (message: string) => never): string {
  if (!extensions.includes(extname(file)))
    return reject(`"${specifier}" must be a JavaScript or TypeScript file (${extensions.join(', ')})`);
  if (existsSync(file)) return file;
  const folder = dirname(file);
  const names = existsSync(folder) ? readdirSync(folder) : [];
  return reject(`"${specifier}" does not exist${suggestion(basename(file), names)}`);
}

/** Returns the file that a package exports, or rejects a package that is not installed. */
function packageFile(specifier: string, reject: (message: string) => never): string {
  const folder = instanceFolder();
  const { resolve: resolveIn } = createRequire(join(folder, 'package.json'));
  try {
    return resolveIn(specifier);
  } catch (cause) {
    const { code } = cause as NodeJS.ErrnoException;
    if (code === 'MODULE_NOT_FOUND')
      return reject(
        `the package "${specifier}" is not installed in ${folder}. Install it, or write "./${specifier}" for a file.`,
      );
    // The package exports only a module for `import`.
    const manifest = join(folder, 'node_modules', specifier, 'package.json');
    const target = existsSync(manifest)
      ? importTarget(JSON.parse(readFileSync(manifest, 'utf8')))
      : undefined;
    return target === undefined
      ? reject(`the package "${specifier}" has no main export`)
      : join(dirname(manifest), target);
  }
}

/** Returns the target of a package's main export for `import`. */
function importTarget({ exports }: { readonly exports?: unknown }): string | undefined {
  const conditions = (target: unknown): string | undefined => {
    if (typeof target === 'string') return target;
    if (typeof target !== 'object' || target === null) return undefined;
    const match = Object.entries(target).find(([key]) => ['.', 'node', 'import', 'default'].includes(key));
    return conditions(match?.[1]);
  };
  return conditions(exports);
}

/** Formats the error that importing a module failed with as one line, with its location if it is known. */
function importError(label: string, file: string, cause: unknown): string {
  if (!(cause instanceof Error)) return `${label}: failed to load: ${String(cause)}`;
  const [message = ''] = cause.message.split('\n');
  const { code } = cause as NodeJS.ErrnoException;
  if (cause instanceof SyntaxError) {
    const location = syntaxLocation(cause.stack ?? '') ?? checkedLocation(file);
    const hint =
      code === 'ERR_UNSUPPORTED_TYPESCRIPT_SYNTAX'
        ? '. Node.js only removes types. Use syntax without a meaning at run time, for example a union of strings instead of an enum.'
        : '';
    return `${location ?? label}: ${message}${hint}`;
  }
  if (code === 'ERR_MODULE_NOT_FOUND') return `${label}: ${message}`;
  const frame = [...(cause.stack ?? '').matchAll(/(?:file:\/\/)?(\/[^\s():?]+)[^\s():]*:(\d+):(\d+)/g)].find(
    ([, path = '']) => !path.includes('/node_modules/'),
  );
  const location = frame === undefined ? label : `${displayPath(frame[1] ?? '')}:${frame[2]}:${frame[3]}`;
  return `${location}: failed to load: ${message}`;
}

/** Returns the location in the text that Node.js puts before a syntax error: a file, a line and a marker. */
function syntaxLocation(text: string): string | undefined {
  const header = /^((?:file:\/\/)?\/[^?\n]*?)(?:\?[^\n]*)?:(\d+)\n/m.exec(text);
  if (header === null) return undefined;
  const [, path = '', line = ''] = header;
  const marker = /^( *)\^+$/m.exec(text.slice(header.index));
  const column = (marker?.[1]?.length ?? 0) + 1;
  return `${displayPath(path.startsWith('file:') ? fileURLToPath(path) : path)}:${line}:${column}`;
}

/** Returns the location of a syntax error in a file. JavaScript's syntax errors do not contain it. */
const checkedLocation = (file: string): string | undefined =>
  syntaxLocation(spawnSync(process.execPath, ['--check', file], { encoding: 'utf8' }).stderr);

type Own = OwnValues<Variables, unknown>;

/** Returns a module that passes its own values to the functions of a definition. Adds a line to `issues` for each issue. */
function instanceModule(
  definition: ModuleDefinition,
  config: SettingsConfig,
  allModules: () => NonNullable<SettingsConfig['modules']>,
  issues: string[],
): InstanceModule {
  const { name, register, pages, metrics, commands, settings, channels, hooks, actions, ...rest } =
    definition;
  if (settings !== undefined && typeof settings !== 'function') {
    try {
      assertSectionSchema(settings);
    } catch (cause) {
      issues.push(`settings: is not a valid JSON Schema: ${(cause as Error).message}`);
    }
  }
  const variables = readVariables(definition.variables ?? {}, config.environment, issues);
  const withOwn = <T>(values: T, moduleSettings: () => unknown): T & Own => ({
    ...values,
    variables,
    moduleSettings,
  });
  const sectionIn = (settings: LiveSettings) => () => sectionOf(settings.current, name);
  const withRecords = <T extends Instance>(instance: T, moduleSettings: () => unknown) =>
    withOwn({ ...instance, records: recordAccess(instance, name) }, moduleSettings);
  const withService = (services: Services) => withRecords(services, sectionIn(services.settings));
  /** Returns the current section. A running service sets it, and commands read the file. */
  let currentSection: (() => unknown) | undefined;
  const withCode = async <T>(values: T): Promise<T & Own> => {
    if (currentSection === undefined) {
      const section = sectionOf(await readSettings({ ...config, modules: allModules() }), name);
      currentSection ??= () => section;
    }
    return withOwn(values, currentSection);
  };
  const hooksWithValues = (own: ResourceHooks<string, Own>): ResourceHooks => {
    const { beforeWrite, beforeWrites, afterWrite, afterWrites, afterCommit } = own;
    return {
      ...(beforeWrite && { beforeWrite: async (write) => beforeWrite(await withCode(write)) }),
      ...(beforeWrites && { beforeWrites: async (context) => beforeWrites(await withCode(context)) }),
      ...(afterWrite && { afterWrite: async (write) => afterWrite(await withCode(write)) }),
      ...(afterWrites && { afterWrites: async (context) => afterWrites(await withCode(context)) }),
      ...(afterCommit && { afterCommit: async (change) => afterCommit(await withCode(change)) }),
    };
  };
  const actionWithValues = (action: ResourceAction<string, Own>): ResourceAction => {
    if (action.job === true) {
      const { run, ...job } = action;
      return { ...job, run: async (context: JobContext) => run(await withCode(context)) };
    }
    const { run, ...immediate } = action;
    return { ...immediate, run: async (context: ActionContext) => run(await withCode(context)) };
  };
  return {
    ...rest,
    name,
    ...(hooks && { hooks: mapValues(hooks, hooksWithValues) }),
    ...(actions && { actions: mapValues(actions, (ofResource) => mapValues(ofResource, actionWithValues)) }),
    ...(settings !== undefined && { settings }),
    ...(channels && {
      channels: mapValues(channels, (channel) =>
        moduleChannel(name, channel, ({ settings: live }) => withOwn({}, sectionIn(live))),
      ),
    }),
    ...((register ?? hooks ?? actions) && {
      register: (app, services) => {
        currentSection = sectionIn(services.settings);
        return register?.(app, withService(services));
      },
    }),
    ...(pages && { pages: (screens, services) => pages(screens, withService(services)) }),
    ...(metrics && { metrics: (services) => metrics(withService(services)) }),
    ...(commands && {
      commands: (line) =>
        commands({
          ...line,
          withInstance: (work) =>
            line.withInstance(async (instance) => {
              const current = await readSettings(instance.config);
              return work(withRecords(instance, () => sectionOf(current, name)));
            }),
        }),
    }),
  };
}

/** Returns an object with the results of a function for its values. */
const mapValues = <V, T>(
  object: Readonly<Record<string, V>>,
  map: (value: V) => T,
): Readonly<Record<string, T>> =>
  Object.fromEntries(Object.entries(object).map(([key, value]) => [key, map(value)]));

/** Returns whether a name has another meaning in `messaging` or for `crm simulate`. */
const isReservedChannel = (name: string): boolean =>
  [...ownSenders, ...simulatedPartners].includes(name) || name.endsWith('-payment');

/** Returns an issue for each name of a module that other modules, settings or variables already use. */
function conflicts(
  { name, tables = [], variables = {}, channels = {} }: InstanceModule,
  own: readonly InstanceModule[],
  usedVariables: readonly string[],
): string[] {
  const others = [...modules, ...own];
  const prefix = `crm_${name.replaceAll('-', '_')}`;
  const ownerOf = (table: string) =>
    others.find((other) => other.tables?.some(({ meta }) => meta.tableName === table))?.name;
  return [
    ...(modules.some((module) => module.name === name)
      ? [`name: "${name}" is the name of one of the engine's modules. Choose another name.`]
      : []),
    ...(settingNames.includes(name)
      ? [`name: "${name}" is the name of one of the engine's settings in config.yaml. Choose another name.`]
      : []),
    ...tables.flatMap(({ meta: { tableName } }, index) => {
      if (tableName !== prefix && !tableName.startsWith(`${prefix}_`))
        return [
          `tables[${index}]: the name of the table "${tableName}" must be ${prefix} or start with ${prefix}_`,
        ];
      const owner = ownerOf(tableName);
      return owner === undefined
        ? []
        : [`tables[${index}]: the table "${tableName}" already belongs to the module ${owner}`];
    }),
    ...Object.keys(channels).flatMap((provider) => {
      const owner = others.find(({ channels: all = {} }) => Object.hasOwn(all, provider))?.name;
      if (owner !== undefined)
        return [
          `channels.${provider}: the channel already belongs to the module ${owner}. Choose another name.`,
        ];
      return isReservedChannel(provider)
        ? [`channels.${provider}: the name is reserved. Choose another name.`]
        : [];
    }),
    ...Object.entries(variables).flatMap(([key, variable]) =>
      usedVariables.includes(variable.name)
        ? [`variables.${key}: ${variable.name} is one of the engine's variables. Choose another name.`]
        : [],
    ),
  ];
}
