// Secrets: the instance's own secrets, and what is derived from or encrypted with them.
// May import engine.

export {
  type InstanceSecrets,
  instanceSecrets,
  type SecretsConfig,
  secretFile,
  secretsVariables,
} from './instance-secrets.ts';
export { secretsModule } from './module.ts';
export { renewSealed } from './renew-sealed.ts';
export { cachedOpener, type Sealing, sealing } from './sealing.ts';
export { hashSecret, isSecret, makeCode, makePublicId, makeSecret } from './secrets.ts';
export { signing } from './signing.ts';
export { type Tickets, tickets } from './tickets.ts';
