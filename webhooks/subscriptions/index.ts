// Subscriptions: sends changes to customers' URLs.
// May import engine, plugins, settings, endpoint, queue.

export { subscriptionsModule } from './module.ts';
