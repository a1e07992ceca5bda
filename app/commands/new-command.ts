import { existsSync } from 'node:fs';
import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import { basename, dirname, join, relative, resolve, sep } from 'node:path';
import { Option } from '@commander-js/extra-typings';
import { packageName, projectFolder } from '../../engine/config/index.ts';
import { fileReason, UserError } from '../../engine/errors.ts';
import { type CommandLine, type CommandResult, jsonResult } from '../../engine/modules/index.ts';
import { createMigration } from '../../engine/schema/index.ts';
import { readConfig } from '../config.ts';
import { modelOf } from '../instance.ts';
import { loadResources } from '../serve/build.ts';
import type { Instance } from '../services.ts';
import { version } from '../version.ts';
import { writeSchemas } from './editors.ts';
import { createModule } from './new-module.ts';

/**
 * Whether this code runs from `dist` in a packed package. A clone runs its TypeScript source, and its
 * instances depend on the clone's folder.
 */
const isPacked = import.meta.filename.endsWith('.js');

/** The engine dependency of a new instance. */
interface EngineSpec {
  /** The dependency's value in package.json. */
  readonly spec: string;
  /**
   * Whether the value refers to a file or folder on this machine because the package did not come from the npm
   * registry.
   */
  readonly isLocal: boolean;
}

/**
 * Returns a specification that npm can use to install this engine: the registry's version, the tarball it was
 * installed from, or the folder it runs from.
 * @param folder the instance's folder, which local paths are relative to
 */
async function engineSpec(folder: string): Promise<EngineSpec> {
  const local = (path: string) => ({
    spec: `file:${relative(folder, path).replaceAll(sep, '/')}`,
    isLocal: isPacked,
  });
  if (!isPacked) return local(resolve(projectFolder));
  const packageFolder = resolve(projectFolder, '..');
  const source = await installSource(dirname(packageFolder));
  if (source === undefined) return local(packageFolder);
  if (!source.startsWith('file:')) {
    const isVersion = source.endsWith(`/${packageName}/-/${packageName}-${version}.tgz`);
    return { spec: isVersion ? `^${version}` : source, isLocal: false };
  }
  const tarball = resolve(dirname(packageFolder), '..', source.slice('file:'.length));
  return local(existsSync(tarball) ? tarball : packageFolder);
}

/**
 * Returns the source that this package was installed from, according to the hidden lock file in
 * `node_modules`, or undefined for global installs, which do not have this file.
 */
async function installSource(modules: string): Promise<string | undefined> {
  try {
    const lock = JSON.parse(await readFile(join(modules, '.package-lock.json'), 'utf8')) as {
      readonly packages?: Readonly<Record<string, { readonly resolved?: string }>>;
    };
    return lock.packages?.[`node_modules/${packageName}`]?.resolved;
  } catch {
    return undefined;
  }
}

/** Adds the `new` command. */
export function newCommand({ program, run }: CommandLine<Instance>): void {
  program
    .command('new')
    .description('create a folder for a new instance, with config.yaml, resources and migrations')
    .argument('<folder>', 'a new or empty folder, for example ./my-crm')
    .option('--engine <spec>', 'version or file: specifier of crm-engine to install')
    .addOption(
      new Option(
        '--template <name>',
        'additional files, for example fields for IDs in other systems',
      ).choices(templates),
    )
    .addOption(jsonResult())
    .action((folder, { json, ...options }) => run(json, createInstance(folder, options)))
    .command('module')
    .description('create a module with a test, and add it to config.yaml')
    .argument('<name>', 'lowercase words separated by "-", for example convert-lead')
    .addOption(jsonResult())
    .action((name, { json }) => run(json, createModule(name)));
}

/** Names of the folders in `templates/`, whose files a new instance can contain. */
const templates = ['integration'] as const;

/** Options for a new instance. */
interface NewOptions {
  /** Specification that npm uses to install the engine. */
  readonly engine?: string | undefined;
  readonly template?: (typeof templates)[number] | undefined;
}

async function createInstance(path: string, { engine, template }: NewOptions): Promise<CommandResult> {
  const folder = resolve(path);
  const existing = await readdir(folder).catch((cause: NodeJS.ErrnoException) => {
    if (cause.code === 'ENOENT') return [];
    throw new UserError(`${path} cannot be read: ${fileReason(cause)}`, { cause });
  });
  if (existing.length > 0) throw new UserError(`${path} is not empty. Choose a new folder.`);
  const { spec, isLocal } =
    engine === undefined ? await engineSpec(folder) : { spec: engine, isLocal: false };
  const files = {
    ...(await filesOf(basename(folder), spec)),
    ...(template === undefined ? {} : await templateFiles(template)),
  };
  for (const [name, text] of Object.entries(files)) {
    await mkdir(dirname(join(folder, name)), { recursive: true });
    await writeFile(join(folder, name), text, { flag: 'wx' });
  }
  await writeSchemas({
    resources: join(folder, 'resources'),
    shippedResources: join(projectFolder, 'resources'),
    settingsFile: join(folder, 'config.yaml'),
    modules: [],
  });
  const migrations = await firstMigration(folder);
  return {
    json: { folder, files: [...Object.keys(files), ...migrations], engine: spec },
    text: `Created ${path}${isLocal ? ` with --engine ${spec}` : ''}. Next:\n  cd ${path} && npm install && npm start`,
  };
}

/**
 * Writes a new instance's first migration, so that its first start has tables for the template's resources and for the
 * shipped ones, whose later changes are not part of the migrations of instances.
 * @returns the paths of its files
 */
async function firstMigration(folder: string): Promise<readonly string[]> {
  const config = {
    ...readConfig({}),
    resources: join(folder, 'resources'),
    shippedResources: join(projectFolder, 'resources'),
    migrations: join(folder, 'migrations'),
    platformMigrations: join(projectFolder, 'migrations'),
  };
  const { file } = await createMigration(config, modelOf(await loadResources(config), config), 'initial');
  return file === undefined
    ? []
    : [file, file.replace(/\.ts$/, '.json')].map((path) => relative(folder, path));
}

/** Returns the contents of a template's files, keyed by path. */
async function templateFiles(template: string): Promise<Readonly<Record<string, string>>> {
  const folder = join(projectFolder, 'templates', template);
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  return Object.fromEntries(
    await Promise.all(
      entries
        .filter((entry) => entry.isFile())
        .map(async (entry) => {
          const path = join(entry.parentPath, entry.name);
          return [relative(folder, path), await readFile(path, 'utf8')] as const;
        }),
    ),
  );
}

/** Replaces the shell in which npm runs scripts, because some shells do not forward npm's signals. */
const exec = process.platform === 'win32' ? '' : 'exec ';

/** Returns the contents of a new instance's files, keyed by path. */
async function filesOf(name: string, engine: string): Promise<Readonly<Record<string, string>>> {
  const config = await readFile(join(projectFolder, 'config.yaml'), 'utf8');
  const manifest = {
    name:
      name
        .toLowerCase()
        .replace(/[^a-z0-9-]+/g, '-')
        .replace(/^-+|-+$/g, '') || 'my-crm',
    private: true,
    type: 'module',
    scripts: { start: `${exec}crm serve`, dev: `${exec}crm dev`, crm: `${exec}crm`, test: 'node --test' },
    dependencies: { [packageName]: engine },
    allowScripts: { argon2: true },
  };
  return {
    'config.yaml': config,
    'package.json': `${JSON.stringify(manifest, null, 2)}\n`,
    'README.md': readme(name),
    'tsconfig.json': tsconfig,
    // Schemas are generated from the definitions, so committing them would only cause merge conflicts.
    '.gitignore': 'node_modules/\ndata/\nresources/.schemas/\n',
    // Git does not track empty folders.
    'resources/.gitkeep': '',
    'migrations/.gitkeep': '',
  };
}

/** Settings for editors and the TypeScript compiler, which check modules. Node.js removes the types itself. */
const tsconfig = `{
  "compilerOptions": {
    "target": "esnext",
    "module": "nodenext",
    "strict": true,
    "noEmit": true,
    "allowImportingTsExtensions": true,
    "erasableSyntaxOnly": true,
    "verbatimModuleSyntax": true,
    "types": ["node"],
    "skipLibCheck": true
  },
  "include": ["modules", "crm-types.d.ts"]
}
`;

const readme = (name: string): string => `# ${name}

An instance of [${packageName}](node_modules/${packageName}/README.md).

\`\`\`sh
npm install
npm start          # serves http://127.0.0.1:3000; the first start prints a login and an API key
npm run dev        # the same, but applies changes to resources/ within a second
npm run -s crm -- --help
\`\`\`

- \`resources/\`: your own resources, one YAML file each, and your additions to the built-in resources:

  \`\`\`yaml
  # resources/leads.yaml
  extends: leads
  fields:
    fax: { type: string, description: Fax number. }
  filters: [fax]
  \`\`\`

- \`migrations/\`: the migrations for your changes. After you edit a resource, \`npm run -s crm -- plan\` shows what will
  change, and \`npm run -s crm -- migrate --create fax\` creates the migration. Commit both. Migrations for the engine's own
  tables are part of the package. The first migration adds what the built-in resources have gained since their tables
  were first created.
- \`resources/.schemas/\`: JSON Schemas that editors use to complete and check these files. They are not in git;
  \`npm run -s crm -- schema\` generates them.
- \`config.yaml\`: settings for partners, messages and email, and your modules. \`npm run -s crm -- new module convert-lead\` creates a
  module with a test, which \`npm test\` runs.
- \`data/\`: the embedded database, unless \`DATABASE_URL\` is set. Back it up.

To upgrade, install the new version, review \`npm run -s crm -- plan\`, and restart. If the new version changes built-in
resources, create a migration with \`npm run -s crm -- migrate --create upgrade\`.
`;
