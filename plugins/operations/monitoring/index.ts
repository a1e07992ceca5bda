// Monitoring: the admin port with /livez, /readyz and /metrics.
// May import engine.

import { integerVariable, textVariable } from '../../../engine/config/index.ts';
import type { Database } from '../../../engine/database/index.ts';
import type { Metrics, Module } from '../../../engine/modules/index.ts';
import type { Collect } from './metrics.ts';

export { countsOf, createAdminServer } from './admin-server.ts';
export type { FamilyValues } from './families.ts';
export { type ProcessReport, type ReadinessReport, readinessOf } from './readiness.ts';

/** Environment variables that configure the admin port. */
export const operationsVariables = {
  /** Port for /livez, /readyz and /metrics. If undefined, the port is disabled; 0 selects a free port. */
  adminPort: integerVariable('ADMIN_PORT', undefined, [0, 65_535]),
  adminHost: textVariable('ADMIN_HOST', '127.0.0.1'),
};

declare module 'fastify' {
  interface FastifyInstance {
    /** Collects metrics. Absent if the admin port is not configured. */
    collectMetrics?: Collect;
  }
}

/** Services required for monitoring. */
interface OperationsServices {
  readonly config: { readonly adminPort: number | undefined; readonly dataFolder: string };
  readonly database: Database;
  readonly metrics: () => readonly Metrics[];
  /** Versions of the service and its components. */
  readonly versions: Readonly<Record<string, string>>;
}

/** Provides the admin port and its metrics. */
export const operationsModule: Module<OperationsServices> = {
  name: 'monitoring',
  variables: operationsVariables,
  register: async (app, { config, database, metrics, versions }) => {
    if (config.adminPort === undefined) return;
    // Loaded only if metrics are collected, to save memory.
    const { measure } = await import('./metrics.ts');
    app.decorate('collectMetrics', measure(app, database, config.dataFolder, metrics, versions));
  },
};
