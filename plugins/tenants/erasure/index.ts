// Forgetting: a person is erased from an organization: records, what the ledger kept of them, what partners sent.
// May import engine, secrets, screens.

export { erasureModule } from './module.ts';
