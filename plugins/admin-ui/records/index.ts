// Records: pages for records, generated from the resource definitions.
// May import engine, secrets, identity, admin-ui/shell.

export { recordPagesModule } from './module.ts';
