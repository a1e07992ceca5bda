// Throttling: wrong passwords and secrets are bounded, and the requests of keys and people where that is configured.
// May import engine, identity.

export { attempts } from './attempts.ts';
export { countForWorkers, failureCounter } from './counter.ts';
export { throttlingModule } from './module.ts';
export { type ThrottlingConfig, throttlingVariables } from './rate-limit.ts';
export { networkOf, throttle } from './throttle.ts';
