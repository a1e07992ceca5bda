// Idempotency: stores responses to requests with an Idempotency-Key for a day.
// May import engine.

export { idempotency } from './module.ts';
