import type { FastifyInstance } from 'fastify';
import type { Database } from '../../engine/database/index.ts';
import { section } from '../admin-ui/shell/index.ts';

/** Adds the section with an organization's toys. */
export const toyPages = (screens: FastifyInstance, database: Database): void =>
  section(screens, database, {
    name: 'toys',
    title: 'Toys',
    load: async () => ({ columns: [{ title: 'Name' }], rows: [], empty: { text: 'No toys yet.' } }),
    actions: {},
  });
