import type { TextRows } from '../database/index.ts';
import type { ResourceDefinition } from '../definition/index.ts';
import type { Effect, Caller as EffectCaller } from '../effects/index.ts';
import type { HttpError } from '../errors.ts';
import type { JsonSchema } from '../fields/index.ts';
import type { Query } from '../query/index.ts';
import type { Lane, Statement } from '../sql/index.ts';
import type { Action, Grants } from './access.ts';
import type { Body, BodyRules } from './body.ts';
import type { FormatName } from './formats.ts';
import type { ItemTable } from './items.ts';
import type { Projection } from './projection.ts';

/** The authenticated caller and its organization. Ids are decimal text. */
export interface Principal {
  /** `command` is the command line, `partner` a partner endpoint. */
  readonly kind: 'key' | 'user' | 'command' | 'partner';
  /** Id of the key or the user; null for the others. */
  readonly actor: string | null;
  /** The name of the key, the address of the user; null for the others. */
  readonly name: string | null;
  readonly organization: string;
  /** The user who acts; null for a key without a creator or whose creator was removed. */
  readonly user: string | null;
  readonly grants: Grants;
}

/** What the statements of a request cost. */
export interface Trace {
  /** Of the last one. */
  lane: Lane | undefined;
  /** All of them, their waits for a turn included, in milliseconds. */
  statementMs: number;
  /** The first of them, in their order; absent where nobody traces. */
  readonly statements?: TracedStatement[] | undefined;
}

/** A statement of a request, its waits for a turn included. */
export interface TracedStatement {
  /** Empty for one that is planned each time. */
  readonly name: string;
  readonly lane: Lane;
  /** When it began, in milliseconds since 1970, and how long it took. */
  readonly at: number;
  readonly ms: number;
}

/** Who a write is recorded for in the organization's ledger. */
export interface Caller extends EffectCaller {
  readonly principal: Principal;
  /** Of the request, where anybody asks. */
  readonly trace?: Trace;
}

/** Signs texts with the secrets of the instance; nodes that share them verify each other's. */
export interface TextSigner {
  readonly sign: (text: string) => string;
  readonly verify: (text: string, signature: string) => boolean;
}

/** What a list links to its other pages with. */
export interface LinkContext {
  /** The address of the list at the moment, without parameters. */
  readonly url: () => string;
  readonly signing: TextSigner;
}

/** How to count all records of a list: `Prefer: count=…`. */
export type CountMode = 'exact' | 'estimated';

/** One request to an operation, not validated yet. */
export interface OperationRequest {
  readonly caller: Caller;
  readonly query: Query;
  /** `Prefer: handling=strict` (RFC 7240): refuse what would be ignored. */
  readonly strict: boolean;
  /** The request's headers, names in lower case; one that was sent several times is joined by commas. */
  readonly headers: Readonly<Record<string, string | undefined>>;
  /** The id in the path; undefined for operations on the collection. */
  readonly id?: string | undefined;
  /** `Prefer: count=…`: how lists count their records. */
  readonly counting?: CountMode | undefined;
  /** What lists link to their other pages with; absent where nobody follows links. */
  readonly links?: LinkContext;
  /**
   * Reads the body.
   * @param types the content types that it may have, `application/json` by default
   * @param maxValues how many values it may hold, if not as many as usual
   * @throws HttpError 400 unless it is a JSON object
   */
  readonly body: (types?: readonly string[], maxValues?: number) => Body;
  /** The body as it was sent. */
  readonly bytes: () => Buffer;
}

/** What an operation is compiled from. */
export interface OperationContext {
  readonly definition: ResourceDefinition;
  readonly body: BodyRules;
  /** How statements read several records at once. */
  readonly items: ItemTable;
  readonly projection: Projection;
  /** Those of all resources, by name. */
  readonly projections: ReadonlyMap<string, Projection>;
  /** Characters of each text that is read, see `excerpts.ts`; absent: all. */
  readonly excerpt?: number;
  /** The effects of every write of this instance. */
  readonly effects: readonly Effect[];
  /** The references that point to records of this resource. */
  readonly referrers: readonly Referrer[];
}

/** A reference of a resource. */
export interface Referrer {
  readonly resource: string;
  readonly field: string;
}

/** The work of a request on the database, as data. */
export interface OperationPlan {
  /** Id of the caller's organization. */
  readonly organization: string;
  readonly caller: Caller;
}

/** What the OpenAPI document says of an operation; the rest follows from its path, action and status. */
export interface OperationDescription {
  readonly operationId: string;
  readonly summary: string;
  /** Further query parameters. */
  readonly parameters?: readonly JsonSchema[];
  /** The description of the body; undefined where the operation has none. */
  readonly body?: {
    readonly description?: string;
    /** The name of its schema in the document. */
    readonly schema: string;
    /** Its content types, `application/json` by default. */
    readonly types?: readonly string[];
  };
  /** The response on success; `schema` is the name of a schema of the document. */
  readonly success: {
    readonly description: string;
    readonly schema: string;
    readonly headers?: Readonly<Record<string, JsonSchema>>;
  };
}

/** The words that describe a resource in the OpenAPI document. */
export interface DescribedResource {
  readonly definition: ResourceDefinition;
  /** With its article, as in "a lead". */
  readonly aRecord: string;
  /** In Pascal case, for schemas and operation ids: `Lead` and `Leads`. */
  readonly recordName: string;
  readonly pluralName: string;
}

/**
 * What a route does with records. Everything that depends on the definition alone is computed by `compile`, once;
 * a request then walks plan → statement → execute → respond.
 */
export interface Operation<P extends OperationPlan = OperationPlan, Planned extends P | Promise<P> = P> {
  readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
  /** Appended to the path of the resource. */
  readonly path: '' | '/:id' | '/:id/history' | '/batch';
  /** The grant that it needs. */
  readonly action: Action;
  /** The status of success. */
  readonly status: 200 | 201;
  /** Bytes that its body may have, if not as many as usual. */
  readonly bodyLimit?: number;
  /** Further formats in which the whole result can be had, see `export` of {@link CompiledOperation}. */
  readonly formats?: readonly FormatName[];
  readonly compile: (context: OperationContext) => CompiledOperation<P, Planned>;
  readonly describe: (resource: DescribedResource) => OperationDescription;
}

/** What an operation responds. */
export interface OperationResponse {
  /** JSON text, or its bytes. */
  readonly body: string | Buffer;
  /** Headers besides those that every response has; names in lower case. */
  readonly headers?: Readonly<Record<string, string>>;
  /** Instead of the status of the operation's success; a 304 has no body. */
  readonly status?: 304;
}

/** Explains why the database refused a write: a reference to no record of the organization, or a value that another record has. */
export interface ExplainRejection<P extends OperationPlan = OperationPlan> {
  /** Finds what is refused; undefined if nothing can be. */
  readonly statement: (plan: P) => Statement | undefined;
  /** What is left to do, by the rows of that statement. @throws HttpError if that is nothing */
  readonly remaining: (plan: P, rows: TextRows) => P;
}

/** How the items of a batch are written apart, to find those that a rule of the operator's in the database rejects. */
export interface Parts<P extends OperationPlan = OperationPlan> {
  /** The numbers of the items that a plan writes. */
  readonly numbers: (plan: P) => readonly number[];
  /** The statement that writes some of them. */
  readonly statement: (plan: P, numbers: readonly number[]) => Promise<Statement>;
  /** The plan without the items that failed. @throws HttpError if it stops at errors */
  readonly without: (plan: P, failures: ReadonlyMap<number, HttpError>) => P;
}

/** How the whole result of an operation is read for another format than JSON, batch after batch. */
export interface ExportReader<P extends OperationPlan = OperationPlan> {
  /** Validates a request, for the first batch. @throws HttpError as `plan` of {@link CompiledOperation} */
  readonly plan: (request: OperationRequest) => P;
  /** Statements that run before the first batch. */
  readonly begin: (plan: P) => readonly Statement[];
  /** What comes before the first record, ASCII. */
  readonly head: (plan: P, format: FormatName) => string;
  /** The statement of a batch, whose rows are records in the format. */
  readonly statement: (plan: P, format: FormatName) => Statement;
  /** The plan of the batch after one with these rows; undefined: there are no more records. */
  readonly next: (plan: P, rows: TextRows) => P | undefined;
}

/** An operation of one resource, ready to run. `Planned` is a promise where validating takes long. */
export interface CompiledOperation<
  P extends OperationPlan = OperationPlan,
  Planned extends P | Promise<P> = P,
> {
  /**
   * Validates a request.
   * @throws HttpError 400 with everything that is wrong, then 404 for an id that cannot exist
   */
  readonly plan: (request: OperationRequest) => Planned;
  /** The statement of a plan; undefined if the response needs none. */
  readonly statement: (plan: P) => Statement | undefined;
  /** The response to a plan. @throws HttpError 404 if there is no such record */
  readonly respond: (plan: P, rows: TextRows) => OperationResponse;
  /** The id of the created record, decimal text, for the Location header. */
  readonly createdId?: (rows: TextRows) => string;
  /** Whether the statement failed, without writing anything, so that running it again may succeed. */
  readonly retryable?: (cause: unknown) => boolean;
  /** How many records its statement creates at least; absent if it creates none. */
  readonly creates?: (plan: P) => number;
  /** Whether it only reads, so that its statements may run on a replica. */
  readonly readsOnly?: true;
  /** A further statement that the rows of the first one call for; its rows come after them. */
  readonly further?: (plan: P, rows: TextRows) => Statement | undefined;
  /** Explains a write that the database refused. */
  readonly refusal?: ExplainRejection<P>;
  /** The items of a batch; absent for a single write. */
  readonly parts?: Parts<P>;
  /** The whole result in the further formats of the operation. */
  readonly export?: ExportReader<P>;
}
