// The package's public interface: everything that modules can import from "crm-engine". docs/modules.md lists what is stable.

export { EntitySchema } from '@mikro-orm/core';
export type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
export { sql } from 'kysely';
export {
  choiceVariable,
  type Environment,
  flagVariable,
  integerVariable,
  textVariable,
  type Variable,
  type Variables,
} from '../engine/config/index.ts';
export { errors, HttpError, UserError } from '../engine/errors.ts';
export { apiPrefix, authorize } from '../engine/http/index.ts';
export {
  type CommandLine,
  type CommandResult,
  type DoctorCheck,
  type Finding,
  formatTable,
  inOrganization,
  jsonResult,
  type Metrics,
  type Module,
  organizationOption,
} from '../engine/modules/index.ts';
export {
  type ActionContext,
  type CommittedChange,
  type CompletedWrite,
  type FindOptions,
  type HookCaller,
  type HookContext,
  type HookRecords,
  type HookValues,
  type ImmediateAction,
  type InputOf,
  type JobAction,
  type JobContext,
  type OrganizationRecords,
  type PlannedWrite,
  type RecordOf,
  Rejection,
  type ResourceAction,
  type ResourceHooks,
  type ResourceName,
  readBody,
  type Where,
} from '../engine/records/index.ts';
export {
  bigintColumn,
  booleanColumn,
  identity,
  integerColumn,
  now,
  type Tables,
  tablesOf,
  tenant,
  textColumn,
  timestampColumn,
  transaction,
} from '../engine/tables/index.ts';
export { type CurrentMember, type ListView, section } from '../plugins/admin-ui/shell/index.ts';
export {
  type ChannelContext,
  type ChannelEvent,
  followMessage,
  type IncomingMessage,
  type Integration,
  type ModuleChannel,
  type OutgoingText,
  PermanentError,
  type ProviderRequest,
  RetryableError,
  type SendContext,
  type SimulatedEvent,
  type Simulation,
  storeMessage,
} from '../webhooks/channels/index.ts';
export { matchesAnySecret } from '../webhooks/endpoint/index.ts';
export {
  type DefinedModule,
  defineModule,
  defineModuleTable,
  type ModuleDefinition,
  type ModuleInstance,
  type ModuleServices,
} from './define-module.ts';
export type { OrganizationEntry, RecordAccess } from './module-records.ts';
export type { Instance, Services } from './services.ts';
export {
  createTestInstance,
  type TestInstance,
  type TestRequest,
  type TestResponse,
} from './test-instance.ts';
