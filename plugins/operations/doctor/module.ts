import type { Database, DatabaseConfig } from '../../../engine/database/index.ts';
import type { HttpConfig } from '../../../engine/http/index.ts';
import type { Module } from '../../../engine/modules/index.ts';
import { addressChecks } from './addresses.ts';
import { dataFolder } from './folder.ts';
import { machineChecks } from './machine.ts';
import { serverChecks } from './server.ts';
import { tableChecks } from './tables.ts';

interface Checked {
  readonly config: DatabaseConfig & HttpConfig & Listening;
  readonly settings: { readonly public_url: string };
  readonly database: Database;
}

/** Where the operators' port listens. */
interface Listening {
  readonly adminPort: number | undefined;
  readonly adminHost: string;
}

/** What goes wrong around an instance: the machine, its folder, its variables, the server of its database. */
export const doctorModule: Module<unknown, unknown, Checked> = {
  name: 'doctor',
  checks: [...machineChecks, dataFolder, ...addressChecks, ...tableChecks, ...serverChecks],
};
