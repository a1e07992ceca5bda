// Idempotency: responses to requests with an Idempotency-Key are kept for a day.
// May import engine.

export { idempotency } from './module.ts';
