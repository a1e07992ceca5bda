// MCP: serves the resources to agents through the Model Context Protocol.
// May import engine, secrets, identity, oauth, admin-ui/shell, admin-ui/records, explorer.

import { type Module, startRetention } from '../../../engine/modules/index.ts';
import { agentCallsRetention } from './calls.ts';
import { agentsPage, type PageServices } from './page.ts';
import { proposalsRetention } from './proposals.ts';
import { proposalPages } from './proposals-page.ts';
import { type McpServices, mcpRoutes } from './protocol.ts';
import { agentTables } from './tables.ts';

export { agentCallsRetention } from './calls.ts';
export { proposalsRetention } from './proposals.ts';

/** Tools of the Model Context Protocol with which agents read and write records, at POST /mcp. */
export const mcpModule: Module<McpServices & PageServices> = {
  name: 'mcp',
  tables: agentTables,
  pages: (app, services) => {
    agentsPage(app, services);
    proposalPages(app, services);
  },
  register: async (app, services) => {
    await app.register(mcpRoutes, services);
    startRetention(app, services.database, { label: 'old calls of agents', steps: [agentCallsRetention] });
    startRetention(app, services.database, { label: 'old proposals of agents', steps: [proposalsRetention] });
  },
};
