import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { dirname, join, relative, resolve, sep } from 'node:path';
import { packageName, projectFolder } from '../../engine/config/index.ts';
import { version } from '../version.ts';

/**
 * Whether this code runs from `dist` in a packed package. A clone runs its TypeScript source, and its
 * instances depend on the clone's folder.
 */
const isPacked = import.meta.filename.endsWith('.js');

/** The engine dependency of a new instance. */
interface EngineSpec {
  /** The value in `dependencies`. */
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
 * @param folder the instance's folder, to which local paths are relative
 */
export async function engineSpec(folder: string): Promise<EngineSpec> {
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
 * Reads where this package was installed from, according to the hidden lock file in `node_modules`. Returns undefined
 * for global installs, which do not have this file.
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
