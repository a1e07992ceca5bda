// Secrets: the instance's own secrets, and keys, signatures and encryption based on them.
// May import engine.

export {
  type InstanceSecrets,
  instanceSecrets,
  type SecretsConfig,
  secretFile,
  secretsVariables,
} from './instance-secrets.ts';
export { secretsModule } from './module.ts';
export { cachedOpener, renewSealed, type Sealing, sealing } from './sealing.ts';
export {
  generateCode,
  generatePublicId,
  generateSecret,
  hashSecret,
  isSecret,
} from './secrets.ts';
export { signing, tickets } from './signing.ts';
