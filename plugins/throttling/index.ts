// Throttling: wrong passwords and secrets are bounded.
// May import engine, identity.

export { attempts } from './attempts.ts';
export { countForWorkers, failureCounter } from './counter.ts';
export { networkOf, throttle } from './throttle.ts';
