// Doctor: the general checks of `crm doctor` for the machine, data folder, variables and database server.
// May import engine.

import type { Database, DatabaseConfig } from '../../../engine/database/index.ts';
import type { HttpConfig } from '../../../engine/http/index.ts';
import type { Module } from '../../../engine/modules/index.ts';
import { addressChecks } from './addresses.ts';
import { dataFolder, machineChecks } from './machine.ts';
import { serverChecks } from './server.ts';
import { tableChecks } from './tables.ts';

interface CheckServices {
  readonly config: DatabaseConfig & HttpConfig & AdminPortConfig;
  readonly settings: { readonly public_url: string };
  readonly database: Database;
}

/** Configuration for the admin port's listener. */
interface AdminPortConfig {
  readonly adminPort: number | undefined;
  readonly adminHost: string;
}

/** Checks for an instance's environment: machine, data folder, variables and database server. */
export const doctorModule: Module<unknown, unknown, CheckServices> = {
  name: 'doctor',
  checks: [...machineChecks, dataFolder, ...addressChecks, ...tableChecks, ...serverChecks],
};
