// Inbox: integrations, and the durable inbox of what they deliver.
// May import engine, plugins, settings, endpoint, channels.

export { endpointPath, listIntegrations, openIntegration } from './integrations.ts';
export { inboxModule } from './module.ts';
