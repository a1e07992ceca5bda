import { integerVariable, textVariable } from '../../../engine/config/index.ts';

/** Environment variables that configure the admin port. */
export const operationsVariables = {
  /** Port for /livez, /readyz and /metrics. It is disabled if undefined; 0 selects a free port. */
  adminPort: integerVariable('ADMIN_PORT', undefined, [0, 65_535]),
  adminHost: textVariable('ADMIN_HOST', '127.0.0.1'),
};
