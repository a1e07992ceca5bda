// Secrets: the instance's own secrets, and keys, signatures and encryption based on them.
// May import engine.

import type { Database } from '../../../engine/database/index.ts';
import type { Module } from '../../../engine/modules/index.ts';
import { secretsCheck } from './check.ts';
import { type SecretsConfig, secretsVariables } from './instance-secrets.ts';

export {
  type InstanceSecrets,
  instanceSecrets,
  type SecretsConfig,
  secretFile,
  secretsVariables,
} from './instance-secrets.ts';
export { cachedOpener, renewSealed, type Sealing, sealing } from './sealing.ts';
export {
  generateCode,
  generatePublicId,
  generateSecret,
  hashSecret,
  isSecret,
} from './secrets.ts';
export { signing, tickets } from './signing.ts';

interface CheckServices {
  readonly config: SecretsConfig;
  readonly database: Database;
}

/** The instance's own secrets, which sign tokens and forms and encrypt stored secrets. */
export const secretsModule: Module<unknown, unknown, CheckServices> = {
  name: 'secrets',
  variables: secretsVariables,
  checks: [secretsCheck],
};
