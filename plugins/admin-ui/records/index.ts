// Records: pages for records, generated from the resource definitions.
// May import engine, secrets, identity, admin-ui/shell.

import type { Module } from '../../../engine/modules/index.ts';
import { type DataServices, dataPages } from './pages.ts';

/** Pages for an organization's records: lists, records, forms and CSV. */
export const recordPagesModule: Module<DataServices> = { name: 'records', pages: dataPages };
