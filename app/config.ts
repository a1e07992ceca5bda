import { join } from 'node:path';
import {
  type Environment,
  flagVariable,
  instanceFolder,
  integerVariable,
  pathVariable,
  projectFolder,
  readVariables,
  shippedFolder,
  textVariable,
  type VariableValues,
} from '../engine/config/index.ts';
import { databaseVariables } from '../engine/database/index.ts';
import { effectVariables } from '../engine/effects/index.ts';
import { UserError } from '../engine/errors.ts';
import { httpVariables } from '../engine/http/index.ts';
import { keyVariables } from '../plugins/access/api-keys/index.ts';
import { sessionVariables } from '../plugins/access/identity/index.ts';
import { rateLimitingVariables } from '../plugins/access/rate-limiting/index.ts';
import { secretsVariables } from '../plugins/access/secrets/index.ts';
import { operationsVariables } from '../plugins/operations/monitoring/index.ts';
import { tracingVariables } from '../plugins/operations/tracing/index.ts';
import { settingsVariables } from '../webhooks/settings/index.ts';

/** The environment variables of the process. */
const processVariables = {
  /** Address to listen on. */
  host: textVariable('HOST', '127.0.0.1'),
  /** 0: any free port. */
  port: integerVariable('PORT', 3000, [0, 65_535]),
  /**
   * How long the service keeps serving after SIGTERM while it reports not ready, in milliseconds. Without the port
   * that reports it, waiting is useless: the default is 2000 with ADMIN_PORT and 0 without.
   */
  stopDelayMs: integerVariable('STOP_DELAY_MS', undefined, [0, 600_000]),
  /** How long a worker may hang before it is killed and replaced, in milliseconds. */
  workerTimeoutMs: integerVariable('WORKER_TIMEOUT_MS', 10_000, [1000, 600_000]),
  /** Whether starting applies migrations; the embedded database always does. */
  migrateOnStart: flagVariable('MIGRATE_ON_START', false),
  /** Folder of resource definitions. */
  resources: pathVariable('RESOURCES_DIR', () => join(instanceFolder(), 'resources'), 'a folder'),
  /** Folder of the shipped definitions that the instance's own extend, or null. */
  shippedResources: shippedFolder('RESOURCES_DIR', 'resources'),
  /** Folder of the demo organization's records. */
  samples: pathVariable('SAMPLES_DIR', () => join(projectFolder, 'samples'), 'a folder'),
};

/** Every environment variable that the service reads. */
export const variables = {
  ...processVariables,
  ...operationsVariables,
  ...tracingVariables,
  ...databaseVariables,
  ...httpVariables,
  ...effectVariables,
  ...secretsVariables,
  ...sessionVariables,
  ...keyVariables,
  ...rateLimitingVariables,
  ...settingsVariables,
};

/** The configuration: the values of the environment variables, and the environment for `${NAME}` in config.yaml. */
export type Config = VariableValues<typeof variables> & {
  readonly stopDelayMs: number;
  readonly environment: Environment;
};

/**
 * Reads the environment, once, at start. Blank variables count as absent, unless their fallback would be another instance.
 * The only reader of process.env.
 * @throws UserError with one line for each variable that is wrong
 */
export function readConfig(environment: Environment = process.env): Config {
  const mistakes: string[] = [];
  const values = readVariables(variables, environment, mistakes);
  if (values.replicaAddresses.length > 0 && values.databaseAddress === undefined) {
    mistakes.push('DATABASE_REPLICA_URLS needs DATABASE_URL: the embedded database has no replicas');
  }
  if (mistakes.length > 0) throw new UserError(mistakes.join('\n'));
  const stopDelayMs = values.stopDelayMs ?? (values.adminPort === undefined ? 0 : 2000);
  return Object.freeze({ ...values, stopDelayMs, environment });
}
