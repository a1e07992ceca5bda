// Rate limiting: limits wrong passwords and secrets and, if configured, the requests of keys and users.
// May import engine, identity.

export { attempts, countForWorkers, createLoginLimiter, failureCounter, networkOf } from './attempts.ts';
export { rateLimitingModule } from './module.ts';
export { type RateLimitingConfig, rateLimitingVariables } from './rate-limit.ts';
