import type { Database, TextRows, Trace } from '../database/index.ts';
import type { ResourceDefinition } from '../definition/index.ts';
import type { Actor, Effect, EffectCaller } from '../effects/index.ts';
import type { HttpError } from '../errors.ts';
import type { Field, JsonSchema } from '../fields/index.ts';
import type { Query } from '../query/index.ts';
import type { Statement } from '../sql/index.ts';
import { type Action, everyGrant, type Grants, type Principal } from './access.ts';
import type { Aliases } from './aliases.ts';
import type { Body, BodyRules } from './body.ts';
import type { CustomFields } from './custom-fields.ts';
import type { DeleteRules, Referrer } from './delete-rules.ts';
import type { Executor, TransactionExecutor } from './executor.ts';
import type { FormatName } from './formats.ts';
import type { ModuleHooks } from './hook-types.ts';
import type { ItemTable } from './items.ts';
import type { Projection } from './projection.ts';
import type {
  CreatedResult,
  DeletedResult,
  EncodedJson,
  OperationResult,
  QueryResult,
  RecordResult,
} from './results.ts';
import type { ReadAccess, VisibleResource } from './rows.ts';
import type { SequenceValues } from './sequence-numbers.ts';
import type { ExplainViolation } from './violations.ts';

/** The author of a write, as recorded in the organization's change log. */
export interface Caller extends EffectCaller {
  readonly principal: Principal;
  /** The request's trace; absent if the request is not measured. */
  readonly trace?: Trace;
}

/** Signs text with the instance's secrets. Nodes with the same secrets verify each other's signatures. */
export interface TextSigner {
  readonly sign: (text: string) => string;
  readonly verify: (text: string, signature: string) => boolean;
}

/** How to count all records of a list: `Prefer: count=…`. */
export type CountMode = 'exact' | 'estimated';

/** The input of an operation, before validation. */
export interface OperationInput {
  readonly caller: Caller;
  /** Query parameters; none by default. */
  readonly query?: Query;
  /** `Prefer: handling=strict` (RFC 7240): reject parameters and fields that would otherwise be ignored. */
  readonly strict?: boolean;
  /** The custom fields of the caller's organization; none by default. */
  readonly customFields?: CustomFields | undefined;
}

/** The input of an operation on a list. */
export interface ListInput extends OperationInput {
  /** How to count the list's records; they are not counted if undefined. */
  readonly counting?: CountMode | undefined;
  /** Signs the cursor of the next page; without it, cursors are neither accepted nor returned. */
  readonly signing?: TextSigner;
  /** Maximum number of records on a page that is not requested by its number. Default: the page size of the API. */
  readonly pageSize?: number;
}

/** The input of an operation on one record. */
export interface RecordInput extends OperationInput {
  /** The record's ID. */
  readonly id: string;
  /** The conditions that the record must meet. */
  readonly conditions?: TagConditions | undefined;
}

/** The input of an operation that reads one record. */
export interface ReadInput extends RecordInput {
  /** The fields to return, in the order of the definition. By default, the query decides. */
  readonly selection?: readonly Field[] | undefined;
}

/** The input of an operation on one record's history. */
export interface HistoryInput extends OperationInput, Pick<RecordInput, 'id'>, Pick<ListInput, 'signing'> {}

/** The input of an operation with a body. */
export interface BodyInput extends OperationInput {
  readonly body: Body;
}

/** The input of an operation that creates records. */
export interface CreateInput extends BodyInput {
  readonly idempotency?: Idempotency | undefined;
  /** See {@link SequenceValues}. */
  readonly sequenceValues?: SequenceValues['sequenceValues'];
  /** Collects the failed items of a batch by index, with the reasons that its JSON does not contain. Indexes start at 1. */
  readonly itemErrors?: Map<number, HttpError>;
}

/** The input of an operation that updates one record. */
export interface UpdateInput extends RecordInput, BodyInput {}

/** The input of any operation. Each operation uses only some of its properties. */
export interface EveryInput extends ListInput, UpdateInput, CreateInput {}

/**
 * Entity tags, without quotes, that a record must or must not have (RFC 9110, section 13.1). `*` stands for any
 * existing record.
 */
export interface TagConditions {
  readonly match?: '*' | readonly string[] | undefined;
  readonly noneMatch?: '*' | readonly string[] | undefined;
}

/** An `Idempotency-Key` and the SHA-256 hash of the request's body, in hexadecimal. */
export interface Idempotency {
  readonly key: string;
  readonly bodyHash: string;
}

/** A call of a module's hook or action. */
export interface ModuleCall {
  readonly module: string;
  /** The hook or action, for example "beforeWrite of leads". */
  readonly place: string;
  readonly seconds: number;
  /** `rejected` if the module rejected the request. */
  readonly result: 'completed' | 'rejected' | 'failed';
}

/** The hooks of an instance, and the compiled resources that they access. */
export interface InstanceHooks {
  /** Functions that modules can set. */
  readonly observer: {
    /** Called after each call of a hook or action. */
    call?: (call: ModuleCall) => void;
    /** Called after a job was queued. */
    jobQueued?: () => void;
    /** Performs each call of a hook or action within a transaction. */
    inTransaction?: <T>(target: Pick<ModuleCall, 'module' | 'place'>, call: () => Promise<T>) => Promise<T>;
  };
  /** The hooks of each resource that has any, in the order of the modules. */
  readonly byResource: ReadonlyMap<string, readonly ModuleHooks[]>;
  /** Names of the resources with hooks after writes. */
  readonly observedResources: readonly string[];
  /** Names of the resources whose writes can cause hooks after the write, also of other resources. */
  readonly afterResources: ReadonlySet<string>;
  /** Returns a resource for callers with these grants. Throws if it does not exist. */
  readonly view: (resource: string, grants: Grants) => HookView;
  /** Returns a resource for modules with system access, which can also write fields that callers cannot write. */
  readonly systemView: (resource: string) => HookView;
  /** Returns the context of a resource for callers without limits. */
  readonly fullContext: (resource: string) => OperationContext;
}

/** A resource as a hook's caller sees it, and the operations with which hooks access its records. */
export interface HookView extends VisibleResource {
  readonly read: (executor: Executor, input: RecordInput) => Promise<RecordResult>;
  readonly query: (executor: Executor, input: ListInput & BodyInput) => Promise<QueryResult>;
  readonly create: (executor: Executor, input: CreateInput) => Promise<CreatedResult>;
  readonly patch: (executor: Executor, input: UpdateInput) => Promise<RecordResult>;
  readonly remove: (executor: Executor, input: RecordInput) => Promise<DeletedResult>;
}

/** The context for compiling a resource's operations. */
export interface OperationContext extends VisibleResource {
  /** Key of the view for which the operations are compiled (see `view.ts`); empty without limits. */
  readonly view: string;
  readonly body: BodyRules;
  /** FROM clause item with the resource's rows, if it is not the table. */
  readonly source?: string;
  /** Compiled SQL that gives statements access to the items of a batch. */
  readonly items: ItemTable;
  readonly projection: Projection;
  /** All resources as the caller sees them, with their projections, by name. */
  readonly resources: ReadonlyMap<string, ProjectedResource>;
  /**
   * Name of the reference to the parent that a request writes together with these records. The parent exists, and the caller
   * can write it, but not necessarily read it. Absent if the records are not written as children.
   */
  readonly parentReference?: string;
  /** Maximum number of characters to select from each text value (see `excerpts.ts`); unlimited if absent. */
  readonly excerpt?: number;
  /** The effects of every write in this instance. */
  readonly effects: readonly Effect[];
  /** The hooks of the instance's modules. */
  readonly hooks: InstanceHooks;
  /** The references that point to each resource, by the resource's name. */
  readonly referrers: ReadonlyMap<string, readonly Referrer[]>;
  /** Returns the context for another resource, for callers with the same rights. */
  readonly contextOf: (resource: string) => OperationContext;
}

/** A resource as the caller sees it, and the SQL that selects its records. */
export interface ProjectedResource extends VisibleResource {
  /** Path of the resource in the API. */
  readonly path: string;
  readonly projection: Projection;
}

/** Describes the database work of a request as data. */
export interface OperationPlan {
  /** ID of the caller's organization. */
  readonly organization: string;
  readonly caller: Caller;
}

/** The OpenAPI description of an operation. The rest is derived from its path, action and status. */
export interface OperationDescription {
  readonly operationId: string;
  readonly summary: string;
  /** Additional sentences of the description. */
  readonly note?: string;
  /** Additional query parameters. */
  readonly parameters?: readonly JsonSchema[];
  /** The request body; undefined if the operation does not have one. */
  readonly body?: {
    readonly description?: string;
    /** Name of the body's schema in the document. */
    readonly schema: string;
  };
  /** The response on success; `schema` is the name of a schema in the document. */
  readonly success: {
    readonly description: string;
    readonly schema: string;
    /** Prefix of the names of the schemas for the additional formats. Default: the name of the record's schema. */
    readonly lines?: string;
  };
}

/** A resource's names in the OpenAPI document. */
export interface DescribedResource {
  readonly definition: ResourceDefinition;
  readonly deleteRules: DeleteRules;
  /** Singular with an article, for example "a lead". */
  readonly aRecord: string;
  /** In Pascal case, for schemas and operation IDs: `Lead` and `Leads`. */
  readonly recordName: string;
  readonly pluralName: string;
}

/** The body that an operation accepts. */
export interface BodyRequirements {
  /** Whether an absent body stands for an empty object. */
  readonly acceptsEmpty?: boolean;
  /** Accepted content types, `application/json` by default. */
  readonly types?: readonly string[];
  /** Maximum size in bytes, if it differs from the default. */
  readonly maxBytes?: number;
  /** Maximum number of JSON values, if it differs from the default. */
  readonly maxValues?: number;
}

/** The field names in a body. */
interface BodyNames {
  /** Replaces former field names with current ones. */
  readonly current: (body: Body, aliases: Aliases) => Body;
  /** Returns the names as query parameters that contain them. */
  readonly parameters: (body: Body) => Query;
}

/**
 * An operation on records. `compile` computes everything that depends only on the definition; each call
 * then runs plan → statement → execute → result.
 */
export interface Operation<
  P extends OperationPlan = OperationPlan,
  Input extends OperationInput = EveryInput,
  Result extends OperationResult = OperationResult,
  Planned extends P | Promise<P> = P,
> {
  readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
  /** Suffix appended to the resource's path. `:id` is a record's ID. */
  readonly path: string;
  /** Returns whether a resource has the operation. Absent if all resources have it. */
  readonly appliesTo?: (definition: ResourceDefinition) => boolean;
  /** Another request for the operation, on the resource's path. It is not described in the OpenAPI document. */
  readonly alternativeMethod?: 'QUERY';
  /** Whether the operation only reads although its method allows writes. */
  readonly isSafe?: true;
  /**
   * Preference (`Prefer`) without which the path does not support the method. Absent if the operation does not need one.
   */
  readonly preference?: 'bulk';
  /** Whether the operation writes several items, whose errors are reported by index or ID. */
  readonly isBatch?: true;
  /** Response headers on success, in addition to the headers of every response. */
  readonly responseHeaders?: Readonly<Record<string, JsonSchema>>;
  /** The required grant. */
  readonly action: Action;
  /** The status code on success. */
  readonly status: 200 | 201;
  /** Requirements for the body that differ from the defaults. */
  readonly body?: BodyRequirements;
  /** The field names in the body, if it is neither a record nor a batch and contains any. */
  readonly bodyNames?: BodyNames;
  /** A valid body, if it is neither a record nor a batch. The referenced records do not have to exist. */
  readonly sampleBody?: Body;
  /** Additional formats for the complete result; see `export` of {@link CompiledOperation}. */
  readonly formats?: readonly FormatName[];
  readonly compile: (context: OperationContext) => CompiledOperation<P, Input, Result, Planned>;
  readonly describe: (resource: DescribedResource) => OperationDescription;
}

/**
 * Explains why the database rejected a write, for example because of a missing reference or a duplicate
 * value.
 */
export interface ExplainRejection<P extends OperationPlan = OperationPlan> {
  /**
   * Returns whether a statement's rows show that it wrote nothing although it did not fail. Absent if the database
   * always reports a rejection as an error.
   */
  readonly isRejected?: (plan: P, rows: TextRows) => boolean;
  /** Returns the statement that finds the rejected items, or undefined if no item can be rejected. */
  readonly statement: (plan: P) => Statement | undefined;
  /**
   * Returns the plan without the rejected items, which the statement's rows identify.
   * @throws HttpError if the write cannot continue
   */
  readonly remaining: (plan: P, rows: TextRows) => P;
}

/** Splits a batch to find the items rejected by an operator's constraint or trigger. */
export interface BatchSplitter<P extends OperationPlan = OperationPlan> {
  /** Returns the indexes of the items that a plan writes, starting at 1. */
  readonly numbers: (plan: P) => readonly number[];
  /** Returns the statement that writes only these items. */
  readonly statement: (plan: P, numbers: readonly number[]) => Promise<Statement>;
  /** Returns the plan without the failed items. @throws HttpError if the batch stops on errors */
  readonly without: (plan: P, failures: ReadonlyMap<number, HttpError>) => P;
}

/** Reads an operation's complete result in batches, for export formats. */
export interface ExportReader<
  P extends OperationPlan = OperationPlan,
  Input extends OperationInput = ListInput,
> {
  /**
   * Validates the input and returns the plan for the first batch.
   * @throws HttpError in the same cases as `plan` of {@link CompiledOperation}
   */
  readonly plan: (input: Input) => P;
  /**
   * Checks that the caller, whose grants can have changed, can still read the related records and email addresses of a
   * plan's result. @throws HttpError 403 otherwise
   */
  readonly authorizeRelated: (plan: P, principal: Principal) => void;
  /** Returns statements that run before the first batch. */
  readonly begin: (plan: P) => readonly Statement[];
  /** Returns the ASCII text before the first record. */
  readonly head: (plan: P, format: FormatName) => string;
  /** Returns a batch's statement, which selects records in the format. */
  readonly statement: (plan: P, format: FormatName) => Statement;
  /**
   * Returns a batch's records in the format and the plan for the next batch, or undefined after the last batch. The plan is
   * undefined if the result never has more than one batch.
   */
  readonly batch: (
    plan: P,
    rows: TextRows,
  ) => { readonly bytes: EncodedJson; readonly next: P | undefined } | undefined;
}

/**
 * The statements of a plan that run in one transaction.
 * @typeParam T their result
 */
export interface TransactionSteps<T = TextRows> {
  readonly lane: 'write' | 'batch';
  /**
   * Number of records that the steps create, for which capacity is reserved before the transaction starts. 0 if only hooks or
   * actions can create records, absent if nothing can.
   */
  readonly creates?: number;
  /** Reserves the capacity in another way. */
  readonly reserve?: (database: Database) => Promise<(() => void) | undefined>;
  /** Runs the statements. They are repeated in a new transaction after a deadlock. */
  readonly run: (executor: TransactionExecutor) => Promise<T>;
}

/** An operation compiled for one resource. `Planned` is a promise if validation is asynchronous. */
export interface CompiledOperation<
  P extends OperationPlan = OperationPlan,
  Input extends OperationInput = EveryInput,
  Result extends OperationResult = OperationResult,
  Planned extends P | Promise<P> = P,
> {
  /**
   * Validates the input.
   * @throws HttpError 400 with all issues, then 404 for an ID that cannot exist
   */
  readonly plan: (input: Input) => Planned;
  /** Returns the statement for a plan, or undefined if the result does not need one. */
  readonly statement: (plan: P) => Statement | undefined;
  /** Returns the result of a plan's statement. @throws HttpError 404 if the record does not exist */
  readonly result: (plan: P, rows: TextRows) => Result;
  /** Returns whether a failed statement wrote nothing and can succeed if retried. */
  readonly retryable?: (cause: unknown) => boolean;
  /** Returns the minimum number of records that the statement creates; absent if it never creates records. */
  readonly creates?: (plan: P) => number;
  /**
   * Whether the operation only reads, so that its statements can run on a replica. If it is `current`, the replica must have
   * every acknowledged write, whatever the caller's grants are.
   */
  readonly readsOnly?: ReadAccess;
  /**
   * Returns a second statement if the first one's rows require it. The second statement's rows are appended.
   */
  readonly followUp?: (plan: P, rows: TextRows) => Statement | undefined;
  /** Explains why the database rejected a write. */
  readonly rejection?: ExplainRejection<P>;
  /** Finds assigned users who are not members, before the write. Unlike a reference, a former member's ID is kept. */
  readonly assignment?: ExplainRejection<P>;
  /** Explains which rule of the resource rejected a write. */
  readonly violation?: ExplainViolation;
  /** Splits a batch into items; absent for single writes. */
  readonly splitter?: BatchSplitter<P>;
  /** Returns the steps of a plan that needs several statements in one transaction, or undefined if it needs only one. */
  readonly transaction?: (plan: P) => TransactionSteps | undefined;
  /** Exports the complete result in the additional formats. */
  readonly export?: ExportReader<P, Input>;
}

/**
 * Returns a caller with every grant in an organization.
 * @param author the author of the caller's changes; the command line by default
 */
export const commandCaller = (
  organization: string,
  { kind, id, name, requestId }: Omit<Actor, 'audited'> = commandAuthor,
): Caller => ({
  principal: { kind, actor: id, name, organization, user: null, grants: everyGrant },
  requestId: requestId ?? '',
});

const commandAuthor = { kind: 'command', id: null, name: null, requestId: null } as const;
