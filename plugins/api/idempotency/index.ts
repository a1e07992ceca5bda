// Idempotency: deletes stored responses to requests with an Idempotency-Key after a day.
// May import engine.

export { idempotency } from './module.ts';
