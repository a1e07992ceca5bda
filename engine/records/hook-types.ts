import type { JsonSchema } from '../fields/index.ts';
import type { HookValues } from './hook-values.ts';

declare global {
  /**
   * The types of an instance's resources, which the file of `crm types` declares: `record` for records, and `input` for the values
   * that can be written. Without it, all records are {@link HookValues}.
   */
  interface CrmResourceTypes {}
}

/** `Typed` if the types of the resources are declared, and otherwise `Untyped`. */
type IfTyped<Typed, Untyped> = [keyof CrmResourceTypes] extends [never] ? Untyped : Typed;

/** The name of a resource. */
export type ResourceName = IfTyped<keyof CrmResourceTypes & string, string>;

/** A part of a resource's types. */
type PartOf<R extends string, Part extends 'record' | 'input'> = IfTyped<
  R extends keyof CrmResourceTypes
    ? CrmResourceTypes[R] extends { readonly [Name in Part]: infer Values }
      ? Values
      : HookValues
    : HookValues,
  HookValues
>;

/** A record of a resource as hooks see it. Callers do not see fields of groups without a grant. */
export type RecordOf<R extends string = string> = PartOf<R, 'record'>;

/** The values of a new record of a resource. */
export type InputOf<R extends string = string> = PartOf<R, 'input'>;

/** The name of a field of a resource. */
type FieldOf<R extends string> = keyof RecordOf<R> & string;

/** A condition on a field of a resource or, with a path such as `account_id.name`, of a referenced record. */
interface FieldCondition<R extends string = string> {
  readonly field: FieldOf<R> | `${string}.${string}`;
  /** An operator of the field's filter, for example `eq`, `contains` or `gte`. */
  readonly op: string;
  readonly value: unknown;
}

/** Conditions that a record meets if it has all of these values, and meets `all`, one of `any` and not `not`. */
export type Conditions<R extends string = string> = {
  readonly [Name in FieldOf<R>]?: unknown;
} & {
  readonly all?: readonly Where<R>[];
  readonly any?: readonly Where<R>[];
  readonly not?: Where<R>;
};

/** Which records to return, for example `{ status: 'Open' }` or `{ field: 'amount', op: 'gte', value: 100 }`. Fields need a filter. */
export type Where<R extends string = string> = FieldCondition<R> | Conditions<R>;

/** Which records {@link HookRecords.find} returns. */
export interface FindOptions<R extends string = string> {
  readonly where?: Where<R>;
  /**
   * Fields to sort by, separated by commas; `-` sorts in descending order. The resource's own sort field alone, without `-`, has the
   * direction in its definition.
   */
  readonly sort?: string;
  /** Text to search for. */
  readonly q?: string;
}

/**
 * Access to records for hooks and actions. Every call checks the caller's grants, limits records and fields to those that the caller
 * sees, and runs the hooks of the resource. Calls fail with the errors of the API.
 */
export interface HookRecords {
  /** Returns a record, or undefined if the caller cannot see it. */
  readonly get: <R extends ResourceName>(
    resource: R,
    id: bigint | number,
  ) => Promise<RecordOf<R> | undefined>;
  /** Returns the first page of the records that meet conditions: at most 20 records. */
  readonly find: <R extends ResourceName>(
    resource: R,
    options?: FindOptions<R>,
  ) => Promise<readonly RecordOf<R>[]>;
  /**
   * Returns all records that meet conditions, in pages: `for await (const leads of records.pages('leads')) …`. A page is read when it is
   * needed. Records whose values in the sort fields change in the meantime can be missing or repeated, so sort by fields that do not change.
   */
  readonly pages: <R extends ResourceName>(
    resource: R,
    options?: FindOptions<R>,
  ) => AsyncIterable<readonly RecordOf<R>[]>;
  /** Creates a record as POST does, and returns it. */
  readonly create: <R extends ResourceName>(resource: R, values: InputOf<R>) => Promise<RecordOf<R>>;
  /** Changes fields of a record as PATCH does, and returns it. */
  readonly update: <R extends ResourceName>(
    resource: R,
    id: bigint | number,
    values: Partial<InputOf<R>>,
  ) => Promise<RecordOf<R>>;
  /** Deletes a record as DELETE does. */
  readonly delete: (resource: ResourceName, id: bigint | number) => Promise<void>;
  /**
   * Returns the same access without the caller's limits, also to fields that callers cannot write. The change log names the caller, followed by the module and the reason.
   * @param reason why the caller's grants are not enough, in a few words
   */
  readonly asSystem: (reason: string) => HookRecords;
}

/** The author of a write, as hooks see it. */
export interface HookCaller {
  readonly kind: 'key' | 'user' | 'command' | 'partner';
  /** ID of the key or user; null for the command line and partners. */
  readonly id: bigint | null;
  /** The key's name or the user's email address; null for the command line and partners. */
  readonly name: string | null;
  /** ID of the user on whose behalf the caller acts; null if there is no such user. */
  readonly user: bigint | null;
  /** ID of the organization. */
  readonly organization: bigint;
  /** ID of the request; empty for the command line. */
  readonly requestId: string;
}

/** What every hook receives. */
export interface HookContext {
  readonly caller: HookCaller;
  /** Access to records in the same transaction, with the caller's grants. */
  readonly records: HookRecords;
  /** Aborted when the hook has exceeded its time limit. */
  readonly signal: AbortSignal;
}

/** A record that is about to be written. */
export interface PlannedWrite<R extends string = string> {
  /** With a trash, `delete` moves the record there. `merge` merges another record into it, and `unmerge` undoes this. */
  readonly action: 'create' | 'update' | 'delete' | 'restore' | 'merge' | 'unmerge';
  /** ID of the record; undefined for a new one. */
  readonly id: bigint | undefined;
  /**
   * The values that the caller sent: with PATCH only the fields to change, with POST the fields in the body, and with PUT also the
   * defaults of absent fields, so that `{ ...previous, ...input }` is what will be stored. Undefined for
   * `delete`, `restore`, `merge` and `unmerge`.
   */
  readonly input: Partial<InputOf<R>> | undefined;
  /** The record as it is stored, with all fields; it is locked until the write has finished. Undefined for a new record. */
  readonly previous: RecordOf<R> | undefined;
}

/** A record that has been written. */
export interface CompletedWrite<R extends string = string> {
  /** The action in the change log. With a trash, deleted records are moved there. */
  readonly action: 'create' | 'update' | 'delete' | 'trash' | 'restore' | 'purge';
  readonly id: bigint;
  /** The record after the write, without sensitive fields; undefined if it was deleted. */
  readonly record: RecordOf<R> | undefined;
  /** The record before the write, without sensitive fields; undefined if it did not exist. */
  readonly previous: RecordOf<R> | undefined;
}

/** A value, or a promise for it. */
export type Awaitable<T> = T | Promise<T>;

/** The input with which a write continues. Undefined keeps the input. */
type NewInput<R extends string> = Partial<InputOf<R>> | undefined;

/**
 * A module's functions that run with every write of a resource's records: single requests, batches, imports, bulk changes, children,
 * partners and the admin UI.
 */
export interface ResourceHooks<R extends string = string, Own = unknown> {
  /**
   * Runs before each record is written, in the transaction of the write. Returned values replace the input. They can include
   * read-only fields that the server does not set itself. A thrown {@link Rejection}, or any error with a `field`, rejects the
   * write with 400.
   */
  readonly beforeWrite?: (write: PlannedWrite<R> & HookContext & Own) => Awaitable<NewInput<R>>;
  /**
   * Like {@link beforeWrite}, but called once for all records of a batch. Returns one result for each write, in order: values, undefined
   * or, to reject the write, a {@link Rejection}.
   */
  readonly beforeWrites?: (
    context: HookContext & Own & { readonly writes: readonly PlannedWrite<R>[] },
  ) => Awaitable<readonly (NewInput<R> | Rejection)[] | undefined>;
  /** Runs after each record was written, in the same transaction. An error rolls everything back. */
  readonly afterWrite?: (write: CompletedWrite<R> & HookContext & Own) => Awaitable<void>;
  /** Like {@link afterWrite}, but called once for all records that a request has written. */
  readonly afterWrites?: (
    context: HookContext & Own & { readonly writes: readonly CompletedWrite<R>[] },
  ) => Awaitable<void>;
  /**
   * Runs after the transaction of each change was committed, at least once and in the order of the change log, also after a crash. Mail
   * and requests to other systems belong here. After an error it is tried again, with growing intervals, and later changes wait.
   */
  readonly afterCommit?: (change: CommittedChange<R> & Own) => Awaitable<void>;
}

/** A change in the change log. */
export interface CommittedChange<R extends string = string> extends CompletedWrite<R> {
  /** Identifies the change. It is the same each time that the hook is called for the change. */
  readonly position: string;
  readonly resource: string;
  /** Names of the changed fields. */
  readonly changed: readonly string[];
  /** ID of the organization. */
  readonly organization: bigint;
  /** The author of the change. */
  readonly actor: Pick<HookCaller, 'kind' | 'id' | 'name'>;
  /** Returns access to the organization's records without limits. Every call is a transaction of its own. */
  readonly asSystem: HookRecords['asSystem'];
  /** Aborted when the hook has exceeded its time limit. */
  readonly signal: AbortSignal;
}

/** Options of a {@link Rejection}. */
interface RejectionOptions {
  /** Name of the field that caused the rejection. */
  readonly field?: string;
  /** Suggested fix, as a sentence. */
  readonly hint?: string;
}

/** Rejects a write with 400. Hooks and actions throw it, and the caller receives its message. */
export class Rejection extends Error {
  override readonly name = 'Rejection';
  readonly field: string | undefined;
  readonly hint: string | undefined;
  constructor(message: string, { field, hint }: RejectionOptions = {}) {
    super(message);
    this.field = field;
    this.hint = hint;
  }
}

/** The hooks of one module for one resource. */
export interface ModuleHooks {
  /** Name of the module. */
  readonly module: string;
  readonly hooks: ResourceHooks;
}

/** What an action receives. */
export interface ActionContext<R extends string = string> extends HookContext {
  /** The body, which matches the action's schema. Integers beyond 2^53 are bigint. */
  readonly input: HookValues;
  /** ID of the record; undefined for an action of the collection. */
  readonly id: bigint | undefined;
  /** The record as the caller sees it, locked until the action has finished; undefined for an action of the collection. */
  readonly record: RecordOf<R> | undefined;
}

/** What an action receives that runs as a job. */
export interface JobContext<R extends string = string>
  extends Pick<ActionContext<R>, 'caller' | 'input' | 'id'> {
  /** The record as the caller saw it when this attempt started. It is not locked. Undefined for an action of the collection. */
  readonly record: RecordOf<R> | undefined;
  /** ID of the job, the same in every attempt. */
  readonly jobId: bigint;
  /** Number of the attempt, starting at 1. */
  readonly attempt: number;
  /** Access to records with the current grants of the caller. Every call is a transaction of its own. */
  readonly records: HookRecords;
  /**
   * Runs work in one transaction, with the same time limit as an action that is not a job, and returns its result. The work must access
   * records only with the `records` that it receives. It runs again if PostgreSQL rolls it back because of a deadlock.
   */
  readonly transaction: <T>(work: (records: HookRecords) => Awaitable<T>) => Promise<T>;
  /** Reports the progress: how many of how many steps are done. */
  readonly progress: (done: number, total: number) => void;
  /** Aborted when the job is canceled or the process shuts down. Then the access to records ends, too. */
  readonly signal: AbortSignal;
}

/** The parts that all actions have in common. */
interface ActionBase {
  /** What the action does, as a sentence for the description of the API. */
  readonly description: string;
  /** Text of its button, for example "Convert lead". Default: derived from its name. */
  readonly label?: string;
  /** Whether the action belongs to the collection instead of one record. */
  readonly ofCollection?: true;
  /**
   * The grant on the resource that callers need. `own` is a grant with the name of the action, for example `leads:convert`, which cannot
   * be limited to a scope; callers also need `read` for an action of a record. Default: `update`, or `create` for actions of the collection.
   */
  readonly permission?: 'read' | 'create' | 'update' | 'delete' | 'own';
  /** JSON Schema of the body, which is an object. Absent if the action needs no body. */
  readonly input?: JsonSchema;
  /** JSON Schema of the result. Default: any object. */
  readonly output?: JsonSchema;
}

/** An action that runs in one transaction, while the caller waits for its result. */
export interface ImmediateAction<R extends string = string, Own = unknown> extends ActionBase {
  readonly job?: never;
  readonly schedule?: never;
  readonly timeZone?: never;
  readonly maxMinutes?: never;
  /** Performs the action and returns the response, or undefined for an empty object. A {@link Rejection} rejects it with 400. */
  readonly run: (context: ActionContext<R> & Own) => Awaitable<HookValues | undefined>;
}

/** An action that runs as a job in the background, at least once and in as many transactions as it needs. */
export interface JobAction<R extends string = string, Own = unknown> extends ActionBase {
  readonly job: true;
  /**
   * When the action also runs by itself, in every organization and without limits: a cron expression with five fields, for example
   * `0 2 * * *` for every night at 2:00. Only for actions of the collection that need no input.
   */
  readonly schedule?: string;
  /** Time zone of `schedule`, for example `Europe/Berlin`. Default: UTC. */
  readonly timeZone?: string;
  /** How long an attempt can take, in minutes. Then the job fails. Default: 60. */
  readonly maxMinutes?: number;
  /**
   * Performs the action and returns the result, or undefined for an empty object. A {@link Rejection}, or an error of the API, fails
   * the job. After any other error, and if the process is killed, it is called again: three times in total.
   */
  readonly run: (context: JobContext<R> & Own) => Awaitable<HookValues | undefined>;
}

/** An action of a resource that a module adds: `POST /R/{id}/actions/NAME`, or `POST /R/actions/NAME` for an action of the collection. */
export type ResourceAction<R extends string = string, Own = unknown> =
  | ImmediateAction<R, Own>
  | JobAction<R, Own>;

/**
 * What a module adds to resources.
 * @typeParam Own the module's own values, which its functions receive in addition
 */
export interface ModuleCode<Own = unknown> {
  /** Name of the module. */
  readonly name: string;
  /** Functions that run with every write of a resource's records, by resource. */
  readonly hooks?: IfTyped<
    { readonly [R in ResourceName]?: ResourceHooks<R, Own> },
    Readonly<Record<string, ResourceHooks<string, Own>>>
  >;
  /** Actions by resource, then by name: lower case, with hyphens between words. */
  readonly actions?: IfTyped<
    { readonly [R in ResourceName]?: Readonly<Record<string, ResourceAction<R, Own>>> },
    Readonly<Record<string, Readonly<Record<string, ResourceAction<string, Own>>>>>
  >;
}
