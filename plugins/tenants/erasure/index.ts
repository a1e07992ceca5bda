// Erasure of a person's data from an organization: records, change log and data exchanged with partners.
// May import engine, secrets, admin-ui/shell.

export { erasureModule } from './module.ts';
