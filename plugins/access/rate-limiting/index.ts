// Throttling: wrong passwords and secrets are bounded, and the requests of keys and people where that is configured.
// May import engine, identity.

export { attempts } from './attempts.ts';
export { countForWorkers, failureCounter } from './counter.ts';
export { createLoginLimiter, networkOf } from './login-limiter.ts';
export { rateLimitingModule } from './module.ts';
export { type RateLimitingConfig, rateLimitingVariables } from './rate-limit.ts';
