import { join } from 'node:path';
import {
  flagVariable,
  instanceFolder,
  integerVariable,
  pathVariable,
  projectFolder,
  shippedFolder,
  textVariable,
} from '../engine/config/index.ts';
import { databaseVariables } from '../engine/database/index.ts';
import { effectVariables } from '../engine/effects/index.ts';
import { httpVariables } from '../engine/http/index.ts';
import { keyVariables } from '../plugins/access/api-keys/index.ts';
import { sessionVariables } from '../plugins/access/identity/index.ts';
import { rateLimitingVariables } from '../plugins/access/rate-limiting/index.ts';
import { secretsVariables } from '../plugins/access/secrets/index.ts';
import { operationsVariables } from '../plugins/operations/monitoring/index.ts';
import { tracingVariables } from '../plugins/operations/tracing/index.ts';
import { settingsVariables } from '../webhooks/settings/index.ts';

/** Environment variables that configure the process. */
const processVariables = {
  /** Address to listen on. */
  host: textVariable('HOST', '127.0.0.1'),
  /** Port to listen on. 0 selects a free port. */
  port: integerVariable('PORT', 3000, [0, 65_535]),
  /**
   * Time after SIGTERM during which the service still serves requests but reports that it is not ready, in
   * milliseconds. The default is 2000 if ADMIN_PORT is set and 0 otherwise, because only the admin port
   * reports readiness.
   */
  stopDelayMs: integerVariable('STOP_DELAY_MS', undefined, [0, 600_000]),
  /** Time after which an unresponsive worker is killed and replaced, in milliseconds. */
  workerTimeoutMs: integerVariable('WORKER_TIMEOUT_MS', 10_000, [1000, 600_000]),
  /** Whether migrations are applied at start. On the embedded database, they are always applied. */
  migrateOnStart: flagVariable('MIGRATE_ON_START', false),
  /** Folder of resource definitions. */
  resources: pathVariable('RESOURCES_DIR', () => join(instanceFolder(), 'resources'), 'a folder'),
  /** Folder of the shipped definitions that the instance's definitions extend, or null. */
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
