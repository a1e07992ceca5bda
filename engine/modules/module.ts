import type { EntitySchema } from '@mikro-orm/core';
import type { FastifyInstance } from 'fastify';
import type { Fragment } from '../compile/index.ts';
import type { Variables } from '../config/index.ts';
import type { FieldRequirements } from '../definition/index.ts';
import type { DoctorCheck } from './check.ts';
import type { CommandLine } from './command-line.ts';
import type { Metrics } from './metrics.ts';

/**
 * Something that an instance has besides records: all of it in one object, and in one folder.
 * @typeParam Services what it needs of a running service
 * @typeParam Instance what its commands need of an open instance
 * @typeParam Checked what its checks need of an instance that may not be well
 */
export interface Module<Services = unknown, Instance = unknown, Checked = unknown> {
  /** The name of its folder. */
  readonly name: string;
  /** Tables of its own; their names begin with `crm_`. */
  readonly tables?: readonly EntitySchema[];
  /** Environment variables of its own. */
  readonly variables?: Variables;
  /** What the OpenAPI description says of its routes. */
  readonly openApi?: Fragment;
  /** Fields of resources that it writes by name: without them it would fail when it is called. */
  readonly needs?: readonly FieldRequirements[];
  /** Adds its hooks, decorators and routes. */
  readonly register?: (app: FastifyInstance, services: Services) => void | Promise<void>;
  /** Adds its pages to the setup screens. */
  readonly pages?: (screens: FastifyInstance, services: Services) => void;
  /** What operators watch of it. */
  readonly metrics?: (services: Services) => readonly Metrics[];
  /** Adds its commands to the command line; loads what they are made of then, because a service needs none of it. */
  readonly commands?: (line: CommandLine<Instance>) => void | Promise<void>;
  /** What `crm doctor` looks at. */
  readonly checks?: readonly DoctorCheck<Checked>[];
}
