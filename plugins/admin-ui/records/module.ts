import type { Module } from '../../../engine/modules/index.ts';
import { type DataServices, dataPages } from './pages.ts';

/** The records of an organization as pages: list, record, forms, CSV. */
export const recordPagesModule: Module<DataServices> = { name: 'records', pages: dataPages };
