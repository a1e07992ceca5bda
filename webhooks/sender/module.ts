import type { Module } from '../../engine/modules/index.ts';
import { senderTables } from './tables.ts';

/** Messages to people, and what became of each. */
export const senderModule: Module = { name: 'sender', tables: senderTables };
