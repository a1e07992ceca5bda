// MCP: serves the resources to agents through the Model Context Protocol.
// May import engine, secrets, identity, oauth, admin-ui/records, explorer.

import type { Module } from '../../../engine/modules/index.ts';
import { type McpServices, mcpRoutes } from './protocol.ts';

/** Tools of the Model Context Protocol with which agents read and write records, at POST /mcp. */
export const mcpModule: Module<McpServices> = {
  name: 'mcp',
  register: async (app, services) => {
    await app.register(mcpRoutes, services);
  },
};
