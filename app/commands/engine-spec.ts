import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { dirname, join, relative, resolve, sep } from 'node:path';
import { packageName, projectFolder } from '../../engine/config/index.ts';
import { version } from '../version.ts';

/** A packed package has its files in `dist`; a clone runs its source, and instances depend on the clone. */
const isPacked = import.meta.filename.endsWith('.js');

/** What a new instance depends on. */
export interface EngineSpec {
  /** The value in `dependencies`. */
  readonly spec: string;
  /** Whether it names a file or folder of this machine because the package did not come from the npm registry. */
  readonly isLocal: boolean;
}

/**
 * Finds what npm can install this engine from: the registry's version, the tarball that npm installed it from, or else
 * the folder that it runs from.
 * @param folder the instance's folder, which local paths are relative to
 */
export async function engineSpec(folder: string): Promise<EngineSpec> {
  const local = (path: string) => ({
    spec: `file:${relative(folder, path).replaceAll(sep, '/')}`,
    isLocal: isPacked,
  });
  if (!isPacked) return local(resolve(projectFolder));
  const packageFolder = resolve(projectFolder, '..');
  const installed = await installedFrom(dirname(packageFolder));
  if (installed === undefined) return local(packageFolder);
  if (!installed.startsWith('file:')) {
    const isVersion = installed.endsWith(`/${packageName}/-/${packageName}-${version}.tgz`);
    return { spec: isVersion ? `^${version}` : installed, isLocal: false };
  }
  const tarball = resolve(dirname(packageFolder), '..', installed.slice('file:'.length));
  return local(existsSync(tarball) ? tarball : packageFolder);
}

/** Reads where npm installed this package from in the hidden lock file of a `node_modules` folder, which global installs lack. */
async function installedFrom(modules: string): Promise<string | undefined> {
  try {
    const lock = JSON.parse(await readFile(join(modules, '.package-lock.json'), 'utf8')) as {
      readonly packages?: Readonly<Record<string, { readonly resolved?: string }>>;
    };
    return lock.packages?.[`node_modules/${packageName}`]?.resolved;
  } catch {
    return undefined;
  }
}
