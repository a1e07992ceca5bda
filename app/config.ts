import { type Environment, readVariables, type Variables } from '../engine/config/index.ts';
import { UserError } from '../engine/errors.ts';
import { loadModules } from './load-modules.ts';
import { modules } from './modules.ts';
import type { Config } from './services.ts';
import { variables } from './variables.ts';

export type { Config } from './services.ts';

/** Returns the variables that the service reads, including the variables of the modules in config.yaml. */
export const variablesOf = ({ modules: all }: Pick<Config, 'modules'>): Variables => ({
  ...variables,
  ...Object.fromEntries(
    all
      .filter((module) => !modules.includes(module))
      .flatMap(({ name, variables: own = {} }) =>
        Object.entries(own).map(([key, variable]) => [`${name}.${key}`, variable]),
      ),
  ),
});

/**
 * Reads the environment at start. Blank variables count as unset, but a blank value is an error if the variable's
 * default would select another instance. No other code reads process.env. The modules are only the engine's own.
 * @throws UserError with one line per invalid variable
 */
export function readConfig(environment: Environment = process.env): Config {
  const issues: string[] = [];
  const values = readVariables(variables, environment, issues);
  if (values.replicaAddresses.length > 0 && values.databaseAddress === undefined) {
    issues.push('DATABASE_REPLICA_URLS needs DATABASE_URL: the embedded database has no replicas');
  }
  if (issues.length > 0) throw new UserError(issues.join('\n'));
  const stopDelayMs = values.stopDelayMs ?? (values.adminPort === undefined ? 0 : 2000);
  return Object.freeze({ ...values, stopDelayMs, environment, modules });
}

/**
 * Reads the environment like {@link readConfig}, and loads the modules in config.yaml.
 * @param version distinguishes the versions of modules that are edited while the process runs
 * @throws UserError with one line per invalid variable or module
 */
export async function loadConfig(environment: Environment = process.env, version?: number): Promise<Config> {
  const config = readConfig(environment);
  const usedVariables = Object.values(variables).map(({ name }) => name);
  const own = await loadModules(config, { usedVariables, version });
  return own.length === 0 ? config : Object.freeze({ ...config, modules: [...modules, ...own] });
}
