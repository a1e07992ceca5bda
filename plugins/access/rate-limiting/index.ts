// Rate limiting: limits wrong passwords and secrets and, if configured, the requests of keys and users.
// May import engine, identity.

export { attempts } from './attempts.ts';
export { countForWorkers, failureCounter } from './counter.ts';
export { createLoginLimiter, networkOf } from './login-limiter.ts';
export { rateLimitingModule } from './module.ts';
export { type RateLimitingConfig, rateLimitingVariables } from './rate-limit.ts';
