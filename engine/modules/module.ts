import type { EntitySchema } from '@mikro-orm/core';
import type { FastifyInstance } from 'fastify';
import type { Fragment } from '../compile/index.ts';
import type { Variables } from '../config/index.ts';
import type { FieldRequirements } from '../definition/index.ts';
import type { DoctorCheck } from './check.ts';
import type { CommandLine } from './command-line.ts';
import type { Metrics } from './metrics.ts';

/**
 * A part of an instance other than records, in a folder of its own.
 * @typeParam Services the parts of a running service that it needs
 * @typeParam Instance the parts of an open instance that its commands need
 * @typeParam Checked the parts of a possibly broken instance that its checks need
 */
export interface Module<Services = unknown, Instance = unknown, Checked = unknown> {
  /** Name of its folder. */
  readonly name: string;
  /** Its tables; their names start with `crm_`. */
  readonly tables?: readonly EntitySchema[];
  /** Its environment variables. */
  readonly variables?: Variables;
  /** OpenAPI fragment for its routes. */
  readonly openApi?: Fragment;
  /** Resource fields that it writes by name, checked at startup. */
  readonly needs?: readonly FieldRequirements[];
  /** Adds its hooks, decorators and routes. */
  readonly register?: (app: FastifyInstance, services: Services) => void | Promise<void>;
  /** Adds its pages to the admin UI. */
  readonly pages?: (screens: FastifyInstance, services: Services) => void;
  /** Its metrics. */
  readonly metrics?: (services: Services) => readonly Metrics[];
  /** Adds its commands to the command line. Imports their code lazily, because the service does not need it. */
  readonly commands?: (line: CommandLine<Instance>) => void | Promise<void>;
  /** Its checks for `crm doctor`. */
  readonly checks?: readonly DoctorCheck<Checked>[];
}
