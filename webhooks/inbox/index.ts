// inbox:
// May import

export { endpointPath, listIntegrations, openIntegration } from './integrations.ts';
export { inboxModule } from './module.ts';
