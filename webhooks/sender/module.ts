import type { Module } from '../../engine/modules/index.ts';
import { senderTables } from './tables.ts';

/** Outgoing messages and their status. */
export const senderModule: Module = { name: 'sender', tables: senderTables };
