// activity:
// May import

export { activityModule } from './module.ts';
