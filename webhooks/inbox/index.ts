// Inbox: integrations, and the durable inbox of what they deliver.
// May import engine, plugins, settings, endpoint, channels, queue.

export { endpointPath, listIntegrations, openIntegration } from './integrations.ts';
export { inboxModule } from './module.ts';
