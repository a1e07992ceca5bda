// Subscriptions: changes that are sent to addresses of customers.
// May import engine, plugins, settings, endpoint, queue.

export { subscriptionsModule } from './module.ts';
