// Data browser: records in the browser, as their definitions say.
// May import engine, secrets, identity, screens.

export { recordPagesModule } from './module.ts';
