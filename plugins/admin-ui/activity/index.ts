// Activity: shows an organization's change log as a page. May import engine, admin-ui/shell.

export { activityModule } from './module.ts';
