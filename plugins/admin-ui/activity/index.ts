// Activity: the change log of an organization as a page.
// May import engine, screens.

export { activityModule } from './module.ts';
