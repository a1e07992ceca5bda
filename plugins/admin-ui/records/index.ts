// Pages for records, generated from the resource definitions.
// May import engine, secrets, identity, screens.

export { recordPagesModule } from './module.ts';
