// Activity: who did what in an organization, as a page.
// May import engine, screens.

export { activityModule } from './module.ts';
