// Inbox: integrations and the durable queue of their events.
// May import engine, plugins, settings, endpoint, channels, queue.

export { endpointPath, integrationRows, openIntegration } from './integrations.ts';
export { inboxModule } from './module.ts';
