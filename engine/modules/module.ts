import type { EntitySchema } from '@mikro-orm/core';
import type { FastifyInstance } from 'fastify';
import type { AddedResponses, Fragment } from '../compile/index.ts';
import type { Variables } from '../config/index.ts';
import type { FieldRequirements } from '../definition/index.ts';
import type { DoctorCheck } from './check.ts';
import type { CommandLine } from './command-line.ts';
import type { Metrics } from './metrics.ts';

/**
 * A part of an instance other than records, in its own folder.
 * @typeParam Services the parts of a running service that the module needs
 * @typeParam Instance the parts of an open instance that its commands need
 * @typeParam Checked the parts of a possibly broken instance that its checks need
 * @typeParam Config the variables on which its responses depend
 */
export interface Module<Services = unknown, Instance = unknown, Checked = unknown, Config = unknown> {
  /** Name of the module's folder. */
  readonly name: string;
  /** The module's tables. Their names start with `crm_`. */
  readonly tables?: readonly EntitySchema[];
  /** The module's environment variables. */
  readonly variables?: Variables;
  /** OpenAPI fragment for the module's routes. */
  readonly openApi?: Fragment;
  /** Headers and errors that the module adds to operations on records, for the OpenAPI document and CORS. */
  readonly responses?: AddedResponses & {
    /** Returns whether the module is enabled, so that the document includes them. */
    readonly isEnabled: (config: Config) => boolean;
  };
  /** Resource fields that the module accesses by name. Their existence is checked at startup. */
  readonly needs?: readonly FieldRequirements[];
  /** Adds the module's hooks, decorators and routes. */
  readonly register?: (app: FastifyInstance, services: Services) => void | Promise<void>;
  /** Adds the module's pages to the admin UI. */
  readonly pages?: (screens: FastifyInstance, services: Services) => void;
  /** The module's metrics. */
  readonly metrics?: (services: Services) => readonly Metrics[];
  /**
   * Adds the module's commands to the command line. Imports their code lazily, because the service does not need it.
   */
  readonly commands?: (line: CommandLine<Instance>) => void | Promise<void>;
  /** The module's checks for `crm doctor`. */
  readonly checks?: readonly DoctorCheck<Checked>[];
}
