import { integerVariable, textVariable } from '../../../engine/config/index.ts';

/** The environment variables of the operators' port. */
export const operationsVariables = {
  /** Port of /livez, /readyz and /metrics; undefined: none; 0: any free port. */
  adminPort: integerVariable('ADMIN_PORT', undefined, [0, 65_535]),
  adminHost: textVariable('ADMIN_HOST', '127.0.0.1'),
};
