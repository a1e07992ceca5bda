// Ledger: how long changes are kept, and the feed of changes.
// May import engine.

export { ledgerModule } from './module.ts';
