// API calls that read and write a resource's records.

import { kindsOfChange } from './changes.ts';
import {
  ApiError,
  ConnectionError,
  type FieldError,
  NotFoundError,
  PreconditionFailedError,
  type Referrers,
} from './errors.ts';
import {
  type CallOptions,
  type ClientOptions,
  pathId,
  pause,
  type Resend,
  type Send,
  sender,
} from './http.ts';
import { type InstanceCalls, instanceCalls } from './instance.ts';
import { type Kinds, parse, requireExactNumbers, stringify } from './json.ts';
import type { AnyCondition } from './query.ts';
import type { ErrorCode } from './resources.generated.ts';

/** The types of a resource. The types of features that the resource does not have are `never`. */
export interface ResourceTypes {
  readonly record: { readonly id: bigint };
  readonly input: object;
  readonly patch: object;
  readonly filters: object;
  readonly search: string;
  readonly sort: string;
  /** Types of related records, keyed by their name in `expand`. */
  readonly expanded: object;
  /** Types of the related resources, keyed like `expanded`. */
  readonly related: Readonly<Record<string, { readonly expanded: object }>>;
  /** Types of the lists of children that can be written together with a record, keyed by their name. */
  readonly written?: object;
  /** Combinations of unique fields that identify a record in `upsert` and `import`. */
  readonly match: readonly string[];
  /** Only for resources with a trash. */
  readonly trash?: true;
  /** Types of the values in groups, keyed by their name. Only for resources with aggregates. */
  readonly aggregates?: { readonly groups: object; readonly measures: object };
}

/** The types of the values in a resource's groups. */
type AggregatesOf<R extends ResourceTypes> = R extends { readonly aggregates: infer A extends object }
  ? A
  : { readonly groups: object; readonly measures: object };
type GroupsOf<R extends ResourceTypes> = AggregatesOf<R> extends { readonly groups: infer G } ? G : never;
type MeasuresOf<R extends ResourceTypes> = AggregatesOf<R> extends { readonly measures: infer M } ? M : never;
type GroupName<R extends ResourceTypes> = keyof GroupsOf<R> & string;
type MeasureName<R extends ResourceTypes> = keyof MeasuresOf<R> & string;

/** `true` for resources with a trash, otherwise `never`. */
type HasTrash<R extends ResourceTypes> = R extends { readonly trash: true } ? true : never;

/** A written record, with the lists of children that the request contained. */
export type Written<R extends ResourceTypes> = R['record'] &
  (R extends { readonly written: infer L extends object } ? { readonly expanded?: Partial<L> } : unknown);

/** Properties of a resource that the client needs at run time. */
export interface ResourceInfo {
  /** Number types of the resource's numeric fields. */
  readonly numbers: Kinds;
  /** Referenced resources, keyed by the name of the reference. A list if the reference points to one of several resources. */
  readonly references: Readonly<Record<string, string | readonly string[]>>;
  /** Resources whose records refer to this resource, keyed by the name of the list in `expand`. */
  readonly lists: Readonly<Record<string, string>>;
  /** Names of fields that refer to users. */
  readonly users: readonly string[];
  /** Number types of the values in groups. Absent if the resource has no aggregates. */
  readonly aggregates?: Kinds;
}

/** The first records that refer to a record. */
export interface ExpandedList<T> {
  readonly data: readonly T[];
  /** Whether there are more records. */
  readonly has_more: boolean;
  /** Path of the complete list. */
  readonly url: string;
}

/** The related types of users, who have no related records. */
export interface NoRelations {
  readonly expanded: { readonly [relation in never]: never };
}

/** Names of the members of any type of a union. */
type KeyOfAny<T> = T extends unknown ? keyof T & string : never;

/** The related types of a reference to one of several resources. Each record has only the relations of its own resource. */
export interface RelationsOfAny<R extends { readonly expanded: object }> {
  readonly expanded: {
    readonly [N in KeyOfAny<R['expanded']>]?: R['expanded'] extends infer E
      ? E extends { readonly [K in N]: infer V }
        ? V
        : never
      : never;
  };
}

/** A user to whom a record refers, as returned in `expanded`. */
export interface ReferencedUser {
  readonly id: bigint;
  /** The person's name, or null if it has not been entered. */
  readonly name: string | null;
  /** Only for members, and only if the caller has the grant `members:list`. */
  readonly email?: string;
  /** Only for users who are no longer members of the organization. */
  readonly former?: true;
}

/** One or more values for a filter. A record must match at least one of these values. */
export type Values<T> = T | readonly T[];
/** ID of a record: the bigint from its `id`, or a safe integer. */
export type Id = bigint | number;
type FieldOf<R extends ResourceTypes> = keyof R['record'] & string;
type RelationOf<R extends ResourceTypes> = keyof R['related'] & string;
/** Names on the second level, after the name of a relation and a dot. */
type NestedNameOf<R extends ResourceTypes, N extends string> = keyof R['related'][N]['expanded'] & string;
/** Names in `expand`. */
type ExpansionOf<R extends ResourceTypes> =
  | RelationOf<R>
  | { [N in RelationOf<R>]: `${N}.${NestedNameOf<R, N>}` }[RelationOf<R>];
/** The requested names on the second level. */
type Nested<N extends string, E extends string> = E extends `${N}.${infer Name}` ? Name : never;
/** The requested relations on the first level. */
type ExpandedNames<R extends ResourceTypes, E extends string> = {
  [N in RelationOf<R>]: N extends E ? N : [Nested<N, E>] extends [never] ? never : N;
}[RelationOf<R>];
/** A related record, the records of a list of references or a list, with the records' own related records. */
type WithNested<V, X> = V extends null
  ? null
  : V extends ExpandedList<infer T>
    ? ExpandedList<T & { readonly expanded: X }>
    : V extends readonly (infer T)[]
      ? readonly (T & { readonly expanded: X })[]
      : V & { readonly expanded: X };
/** The requested related records. */
type Expanded<R extends ResourceTypes, E extends string> = {
  readonly [N in ExpandedNames<R, E> & keyof R['expanded']]: [Nested<N & string, E>] extends [never]
    ? R['expanded'][N]
    : WithNested<
        R['expanded'][N],
        Pick<
          R['related'][N & string]['expanded'],
          Nested<N & string, E> & keyof R['related'][N & string]['expanded']
        >
      >;
};

/** The field that records in lists of the trash also have. `never` for other lists. */
type TrashField<T extends true> = [T] extends [never] ? never : 'trashed_at';

/** A sort key, or several ones. */
type SortOf<Name extends string> = [Name] extends [never] ? never : Values<Name | `-${Name}`>;

/** Filters and sort order of a list. */
export interface ListFilters<R extends ResourceTypes, T extends true = never> extends CallOptions {
  /**
   * Conditions that records must meet, for example `{ status: 'New', created_at: { gte: '2026-03-01T00:00:00Z' } }`.
   */
  readonly where?: R['filters'];
  /** Words that must all occur in a record's searchable fields. */
  readonly q?: R['search'];
  /** A field or, for several sort keys, a list of fields. `-` before a field sorts in descending order. */
  readonly sort?: SortOf<R['sort'] | TrashField<T>>;
  readonly dir?: [R['sort'] | TrashField<T>] extends [never] ? never : 'asc' | 'desc';
  /** Lists the records in the trash instead, latest first. Requires the grant `restore`. */
  readonly trashed?: T;
}

/** The fields and related records to return for each record. */
export interface Selection<F extends string, E extends string> extends CallOptions {
  /** Returns only these fields and `id`. */
  readonly fields?: readonly F[];
  /**
   * Related records to return in `expanded`: a reference, or a resource whose records refer to the record. A second level
   * follows a dot.
   */
  readonly expand?: readonly E[];
}

export interface ListQuery<
  R extends ResourceTypes,
  F extends string,
  E extends string,
  T extends true = never,
> extends ListFilters<R, T>,
    Selection<F, E> {
  /** The previous page's `next`. All other options must be the same as for the previous page. */
  readonly cursor?: string;
  /** Page number, starting at 1. Prefer `cursor`, because pages shift if records are written concurrently. */
  readonly page?: number;
  /** Requests the total number of records on all pages, which is returned as `total`. */
  readonly count?: 'exact' | 'estimated';
}

/** A record with the selected fields and related records. */
export type Selected<R extends ResourceTypes, F extends string, E extends string> = ([FieldOf<R>] extends [F]
  ? R['record']
  : Pick<R['record'], (F | 'id') & keyof R['record']>) &
  ([E] extends [never] ? unknown : { readonly expanded: Expanded<R, E> });

/** A record of a list with the selected fields and related records. In the trash, `trashed_at` is one of the fields. */
export type Listed<R extends ResourceTypes, F extends string, E extends string, T extends true> = Selected<
  R,
  F,
  E
> &
  ([TrashField<T>] extends [never]
    ? unknown
    : [FieldOf<R>] extends [F]
      ? Trashed
      : 'trashed_at' extends F
        ? Trashed
        : unknown);

/** The additional field of a record in the trash. */
export interface Trashed {
  /** When the record was moved to the trash. */
  readonly trashed_at: string;
}

/** The operators of a filter and their values. */
type OperatorsOf<F> = Exclude<NonNullable<F>, string | number | bigint | boolean | readonly unknown[]>;

/** A condition with each operator of a filter. */
type FilterCondition<N extends string, F> =
  | ([Exclude<NonNullable<F>, OperatorsOf<F>>] extends [never]
      ? never
      : { readonly field: N; readonly op: 'eq'; readonly value: Exclude<NonNullable<F>, OperatorsOf<F>> })
  | {
      [O in keyof OperatorsOf<F> & string]: {
        readonly field: N;
        readonly op: O;
        readonly value: NonNullable<OperatorsOf<F>[O]>;
      };
    }[keyof OperatorsOf<F> & string];

/** A condition, or a group of conditions: `all`, `any` or `not`. */
export type Condition<R extends ResourceTypes> = AnyCondition<
  {
    [N in keyof R['filters'] & string]-?: FilterCondition<N, R['filters'][N]>;
  }[keyof R['filters'] & string]
>;

/** Any combination of conditions that records must meet, and the order and content of the result. */
export interface ConditionQuery<
  R extends ResourceTypes,
  F extends string,
  E extends string,
  T extends true = never,
> extends Omit<ListQuery<R, F, E, T>, 'where' | 'page'> {
  /**
   * For example `{ any: [{ field: 'rating', op: 'eq', value: 'Hot' }, { not: { field: 'status', op: 'eq', value: 'New' } }] }`.
   */
  readonly where?: Condition<R>;
}

export interface ListPage<T> {
  readonly data: readonly T[];
  /** Cursor of the next page, or undefined on the last page. */
  readonly next: string | undefined;
  /** Number of records on all pages, if `count` was set. */
  readonly total: number | undefined;
}

/** A condition on a measure. */
interface MeasureCondition {
  readonly eq?: number | bigint | string;
  readonly gt?: number | bigint | string;
  readonly gte?: number | bigint | string;
  readonly lt?: number | bigint | string;
  readonly lte?: number | bigint | string;
}

/** The groups and measures of an aggregate, and the records that they include. */
export interface AggregateQuery<R extends ResourceTypes, G extends string, M extends string>
  extends CallOptions {
  /** Conditions that records must meet, as in lists. */
  readonly where?: R['filters'];
  /** Words that must all occur in a record's searchable fields. */
  readonly q?: R['search'];
  /** Up to three fields, or periods such as `created_at.month`. Without any, all records form one group. */
  readonly groupBy?: readonly G[];
  /** Default: `count()`. */
  readonly measures?: readonly M[];
  /** Conditions that groups must meet, for example `{ 'sum(amount)': { gte: 1000 } }`. */
  readonly having?: { readonly [N in MeasureName<R>]?: MeasureCondition };
  /** IANA time zone in which the periods of timestamps start. Default: UTC. */
  readonly timeZone?: string;
}

/**
 * A group with the requested values. A measure of amounts in different currencies also groups by currency, which is the
 * amount's `currency`.
 */
export type AggregateGroup<R extends ResourceTypes, G extends string, M extends string> = Pick<
  GroupsOf<R>,
  G & keyof GroupsOf<R>
> &
  Pick<MeasuresOf<R>, M & keyof MeasuresOf<R>>;

export interface WriteOptions extends CallOptions {
  /** The record's `etag`. The write fails if the record has changed since it was read. */
  readonly ifMatch?: string;
}

export interface CreateOptions extends CallOptions {
  /**
   * Key that prevents repeated requests, for example after a crash, from creating duplicates. Default: a
   * random string.
   */
  readonly idempotencyKey?: string;
}

export interface BatchOptions extends CreateOptions {
  /** `stop` (default) writes either all records or none. `continue` writes all valid records. */
  readonly onError?: 'stop' | 'continue';
}

/** The records to change or delete: at least one filter or search text. */
export type BulkFilters<R extends ResourceTypes> = Pick<ListFilters<R>, 'where' | 'q'>;

export interface BulkOptions extends CallOptions {
  /** The value of `confirm` in the result of the same call without it. */
  readonly confirm?: string | undefined;
}

/** Number of records that match or, with `confirm`, were written. */
export interface BulkResult {
  readonly count: number;
  /** Confirms the change. Valid for five minutes. Absent if the records were written. */
  readonly confirm?: string;
}

/** Result for a successfully written record in a batch: 201 if it was created, 200 if it was changed or deleted. */
export interface BatchSuccess {
  readonly status: 200 | 201;
  readonly id: bigint;
}

/** Result for a rejected record in a batch with `onError: 'continue'`. */
export interface BatchFailure {
  readonly status: 400 | 404 | 409;
  readonly error: string;
  readonly hint?: string;
  readonly code: ErrorCode | (string & {});
  readonly fields?: readonly FieldError[];
  /** Number of additional invalid fields that are not listed in `fields`. */
  readonly more?: number;
  readonly existing_id?: bigint;
  readonly referrers?: readonly Referrers[];
}

/** The results of a batch, in the same order as its records. */
export type BatchResults<O extends BatchOptions> = readonly (O extends { readonly onError: 'continue' }
  ? BatchSuccess | BatchFailure
  : BatchSuccess)[];

export interface ImportOptions extends CallOptions {
  /** Default: `ndjson`. */
  readonly format?: 'ndjson' | 'csv';
  /** `continue` (default) writes all valid lines. `stop` stops at the first line that fails. */
  readonly onError?: 'stop' | 'continue';
  /** Validates all lines without writing them. */
  readonly dryRun?: boolean;
  /** Unique fields that identify existing records. Matching records are updated, and all others are created. */
  readonly match?: readonly string[];
}

export interface ImportReport {
  readonly created: number;
  readonly updated: number;
  readonly failed: number;
  readonly stopped: boolean;
  readonly dry_run: boolean;
  readonly ignored: readonly string[];
  readonly truncated: boolean;
  readonly lines: readonly {
    readonly line: number;
    readonly error: string;
    readonly code: ErrorCode | (string & {});
    readonly fields?: readonly FieldError[];
    /** Number of additional invalid fields that are not listed in `fields`. */
    readonly more?: number;
  }[];
}

/** A change to a record. */
export interface Change<R extends ResourceTypes> {
  /** Unique position in the change log. */
  readonly position: string;
  readonly at: string;
  readonly actor: { readonly kind: string; readonly id: bigint | null; readonly name: string | null };
  readonly request_id: string | null;
  readonly resource: string;
  readonly id: bigint;
  readonly action: 'create' | 'update' | 'delete' | 'trash' | 'restore' | 'purge';
  /** Number of changes to the record so far, including this one. */
  readonly version: bigint;
  readonly changed: readonly string[];
  /** The record before the change, without expanded records and sensitive fields. */
  readonly before: Partial<R['record']> | null;
  readonly after: Partial<R['record']> | null;
}

/** Maximum number of attempts that `update` makes if the record is changed concurrently. */
const maxConflicts = 20;
const json = 'application/json';
const ndjson = 'application/x-ndjson';

const tags = new WeakMap<object, string>();
/**
 * Returns a record's version for use as `ifMatch`, or undefined unless the complete record was returned by get,
 * create, patch, replace or restore.
 */
export const etag = (record: object): string | undefined => tags.get(record);

/** Number of levels that `expand` can name. */
const expansionLevels = 2;

/** Returns the number types for a resource's records. @param levels number of levels of related records */
function kindsOfRecord(
  resources: Readonly<Record<string, ResourceInfo>>,
  name: string,
  levels: number,
): Kinds {
  const { numbers = {}, references = {}, lists = {}, users = [] } = resources[name] ?? {};
  if (levels === 0) return numbers;
  const related = (to: string) => kindsOfRecord(resources, to, levels - 1);
  const expanded: [string, Kinds[string]][] = [
    ...Object.entries(references).map(([relation, to]): [string, Kinds[string]] => [
      relation,
      typeof to === 'string' ? related(to) : ({ resource }) => related(String(resource)),
    ]),
    ...Object.entries(lists).map(([relation, to]): [string, Kinds] => [relation, { data: related(to) }]),
    ...users.map((field): [string, Kinds] => [field, { id: 'int64' }]),
  ];
  return { ...numbers, expanded: Object.fromEntries(expanded) };
}

/** Returns the number types for a resource's bodies, which can contain lists of children. */
function kindsOfBody(resources: Readonly<Record<string, ResourceInfo>>, name: string): Kinds {
  const { numbers = {}, lists = {} } = resources[name] ?? {};
  const children = Object.entries(lists).map(([list, to]): [string, Kinds] => [
    list,
    kindsOfRecord(resources, to, 0),
  ]);
  return { ...numbers, ...Object.fromEntries(children) };
}

/** Reads and writes the records of a resource. */
export class Records<R extends ResourceTypes> {
  readonly #send: Send;
  readonly #path: string;
  readonly #kinds: Kinds;
  readonly #bodyKinds: Kinds;
  readonly #aggregateKinds: Kinds;

  constructor(send: Send, name: string, resources: Readonly<Record<string, ResourceInfo>>) {
    this.#send = send;
    this.#path = `/api/v1/${name}`;
    this.#kinds = kindsOfRecord(resources, name, expansionLevels);
    this.#bodyKinds = kindsOfBody(resources, name);
    this.#aggregateKinds = resources[name]?.aggregates ?? {};
  }

  /** Returns a page of records. */
  list<
    const F extends FieldOf<R> | TrashField<T> = FieldOf<R>,
    const E extends ExpansionOf<R> = never,
    const T extends HasTrash<R> = never,
  >(query: ListQuery<R, F, E, T> = {}): Promise<ListPage<Listed<R, F, E, T>>> {
    const { cursor, page, count, signal } = query;
    return this.#send({
      ...this.#read(query, { cursor, page }),
      ...(count !== undefined && { preferences: [`count=${count}`] }),
      ...(signal && { signal }),
      read: async (response) => {
        const { data } = parse(await response.text(), { data: this.#kinds }) as {
          data: Listed<R, F, E, T>[];
        };
        const total = response.headers.get('x-total-count');
        return {
          data,
          next: nextCursor(response.headers),
          total: total === null ? undefined : Number(total),
        };
      },
    });
  }

  /**
   * Iterates over all records in a list, page by page. A record that exists during the entire iteration is
   * returned exactly once, despite concurrent writes.
   */
  async *all<
    const F extends FieldOf<R> | TrashField<T> = FieldOf<R>,
    const E extends ExpansionOf<R> = never,
    const T extends HasTrash<R> = never,
  >(query: ListFilters<R, T> & Selection<F, E> = {}): AsyncGenerator<Listed<R, F, E, T>, void, undefined> {
    yield* walk((cursor) => this.list<F, E, T>({ ...query, ...(cursor !== undefined && { cursor }) }));
  }

  /** Returns a page of records that meet any combination of conditions. */
  query<
    const F extends FieldOf<R> | TrashField<T> = FieldOf<R>,
    const E extends ExpansionOf<R> = never,
    const T extends HasTrash<R> = never,
  >(query: ConditionQuery<R, F, E, T> = {}): Promise<ListPage<Listed<R, F, E, T>>> {
    const { where, q, sort, dir, trashed, fields, expand, cursor, count, signal } = query;
    if (where !== undefined) assertExactConditions(where);
    const body = { where, q, sort: sortText(sort), dir, fields, expand, cursor };
    return this.#send({
      method: 'POST',
      path: `${this.#path}/query`,
      query: new URLSearchParams(trashed === undefined ? {} : { trashed: String(trashed) }),
      headers: { 'content-type': json },
      body: stringify(body, {}),
      ...(count !== undefined && { preferences: [`count=${count}`] }),
      ...(signal && { signal }),
      resend: 'always',
      read: async (response) => {
        const { data, next } = parse(await response.text(), { data: this.#kinds }) as {
          data: Listed<R, F, E, T>[];
          next: string | null;
        };
        const total = response.headers.get('x-total-count');
        return { data, next: next ?? undefined, total: total === null ? undefined : Number(total) };
      },
    });
  }

  /** Counts and measures the records in a list, by groups. Returns at most 1,000 groups, in the order of their values. */
  aggregate<
    const G extends GroupName<R> = never,
    const M extends MeasureName<R> = 'count()' & MeasureName<R>,
  >(query: AggregateQuery<R, G, M> = {}): Promise<readonly AggregateGroup<R, G, M>[]> {
    const { where = {}, q, groupBy, measures, having = {}, timeZone, signal } = query;
    const conditions = Object.entries(having).map(([name, condition]) => [`having[${name}]`, condition]);
    const parameters = filterParameters({ ...where, ...Object.fromEntries(conditions) });
    const options = { q, group_by: groupBy?.join(), measure: measures?.join(), tz: timeZone };
    for (const [name, value] of Object.entries(options)) if (value !== undefined) parameters.set(name, value);
    return this.#send({
      method: 'GET',
      path: `${this.#path}/aggregate`,
      query: parameters,
      resend: 'always',
      ...(signal && { signal }),
      read: async (response) =>
        (
          parse(await response.text(), { data: this.#aggregateKinds }) as {
            data: readonly AggregateGroup<R, G, M>[];
          }
        ).data,
    });
  }

  /** Returns a record. @throws NotFoundError if it does not exist */
  get<const F extends FieldOf<R> = FieldOf<R>, const E extends ExpansionOf<R> = never>(
    id: Id,
    selection: Selection<F, E> = {},
  ): Promise<Selected<R, F, E>> {
    const { signal } = selection;
    return this.#send({
      ...this.#read(selection, {}),
      path: this.#pathOf(id),
      ...(signal && { signal }),
      read: (response) => this.#record<Selected<R, F, E>>(response),
    });
  }

  /** Creates a record. Retries do not create it twice. */
  create(record: R['input'], { idempotencyKey, signal }: CreateOptions = {}): Promise<Written<R>> {
    return this.#write('POST', this.#path, stringify(record, this.#bodyKinds), {
      headers: { 'idempotency-key': idempotencyKey ?? newKey() },
      signal,
      read: (response) => this.#record<Written<R>>(response),
    });
  }

  /** Replaces a record. Missing writable fields are set to their defaults. */
  replace(id: Id, record: R['input'], options: WriteOptions = {}): Promise<Written<R>> {
    return this.#writeRecord('PUT', id, record, options);
  }

  /** Changes some fields of a record. */
  patch(id: Id, changes: R['patch'], options: WriteOptions = {}): Promise<Written<R>> {
    return this.#writeRecord('PATCH', id, changes, options);
  }

  /**
   * Reads a record, passes it to a function and writes the fields that the function returns. Starts over if the record
   * was changed concurrently. Does not write if the function returns undefined.
   * @throws PreconditionFailedError with `isUncertain` if the response to an attempt was lost and the write might have
   * succeeded. The write is not repeated in this case, because the change could be applied twice.
   */
  async update(
    id: Id,
    change: (record: R['record']) => R['patch'] | undefined | Promise<R['patch'] | undefined>,
    options: CallOptions = {},
  ): Promise<R['record']> {
    for (let conflicts = 1; ; conflicts++) {
      const record = (await this.get(id, options)) as R['record'];
      const changes = await change(record);
      if (changes === undefined) return record;
      try {
        return await this.patch(id, changes, { ...options, ifMatch: etag(record) ?? '' });
      } catch (error) {
        const isConflict = error instanceof PreconditionFailedError && !error.isUncertain;
        if (!isConflict || conflicts === maxConflicts) throw error;
        await pause(Math.random() * 20 * conflicts, options.signal);
      }
    }
  }

  /** Deletes a record, or moves it to the trash if the resource has one. @throws NotFoundError if it does not exist */
  async delete(id: Id, { ifMatch, signal }: WriteOptions = {}): Promise<void> {
    try {
      await this.#write('DELETE', this.#pathOf(id), undefined, {
        headers: ifMatch === undefined ? {} : { 'if-match': ifMatch },
        signal,
        read: (response) => response.text(),
      });
    } catch (error) {
      // An earlier attempt, whose response was lost, has deleted the record.
      if (!(error instanceof NotFoundError && error.isUncertain)) throw error;
    }
  }

  /** Returns a record from the trash, with its ID. @throws NotFoundError if it is not in the trash */
  async restore(
    id: [HasTrash<R>] extends [never] ? never : Id,
    { ifMatch, signal }: WriteOptions = {},
  ): Promise<R['record']> {
    try {
      return await this.#write('POST', `${this.#pathOf(id)}/restore`, undefined, {
        headers: ifMatch === undefined ? {} : { 'if-match': ifMatch },
        signal,
        read: (response) => this.#record<R['record']>(response),
      });
    } catch (error) {
      // An earlier attempt, whose response was lost, might have restored the record.
      if (!(error instanceof NotFoundError && error.isUncertain)) throw error;
      return this.get(id, signal ? { signal } : {}) as Promise<R['record']>;
    }
  }

  /**
   * Merges another record into a record: references to the other record are moved, blank fields are filled from it, and it is
   * deleted or moved to the trash. @throws NotFoundError if the record does not exist
   */
  async merge(id: Id, from: Id, options: WriteOptions = {}): Promise<R['record']> {
    // An earlier attempt, whose response was lost, might have merged and removed the other record.
    return this.#pair('merge', id, from, options, 'missing_reference');
  }

  /**
   * Undoes the merge of another record into a record: the other record exists again, with the references that the merge moved.
   * @throws NotFoundError if the record does not exist, or ApiError with the code `merge_not_undoable`
   */
  async unmerge(id: Id, from: Id, options: WriteOptions = {}): Promise<R['record']> {
    return this.#pair('unmerge', id, from, options, 'merge_not_undoable');
  }

  /** Merges two records or undoes this. @param repeated code of the error if an earlier attempt has succeeded */
  async #pair(
    operation: 'merge' | 'unmerge',
    id: Id,
    from: Id,
    { ifMatch, signal }: WriteOptions,
    repeated: string,
  ): Promise<R['record']> {
    try {
      return await this.#write(
        'POST',
        `${this.#pathOf(id)}/${operation}`,
        stringify({ from }, { from: 'int64' }),
        {
          headers: ifMatch === undefined ? {} : { 'if-match': ifMatch },
          signal,
          read: (response) => this.#record<R['record']>(response),
        },
      );
    } catch (error) {
      if (!(error instanceof ApiError && error.isUncertain && error.code === repeated)) throw error;
      return this.get(id, signal ? { signal } : {}) as Promise<R['record']>;
    }
  }

  /**
   * Iterates over the changes to a record, newest first, even if the record has been deleted.
   * @throws NotFoundError if neither the record nor any change to it exists
   */
  async *history(id: Id, { signal }: CallOptions = {}): AsyncGenerator<Change<R>, void, undefined> {
    const change = kindsOfChange(this.#kinds);
    yield* walk((cursor) =>
      this.#send({
        method: 'GET',
        path: `${this.#pathOf(id)}/history`,
        query: new URLSearchParams(cursor === undefined ? {} : { cursor }),
        ...(signal && { signal }),
        resend: 'always',
        read: async (response) => ({
          ...(parse(await response.text(), { data: change }) as { data: Change<R>[] }),
          next: nextCursor(response.headers),
        }),
      }),
    );
  }

  /** Creates up to 1,000 records in one request. */
  createMany<const O extends BatchOptions>(
    records: readonly R['input'][],
    options?: O,
  ): Promise<BatchResults<O>> {
    return this.#batch('POST', { records }, 'always', options);
  }

  /**
   * Updates existing records that have the same values in the `match` fields, and creates all others. Accepts up to
   * 1,000 records.
   */
  upsert<const O extends BatchOptions>(
    records: readonly R['input'][],
    match: R['match'],
    options?: O,
  ): Promise<BatchResults<O>> {
    return this.#batch('POST', { records, match }, 'always', options);
  }

  /** Changes up to 1,000 records. */
  patchMany<const O extends Omit<BatchOptions, 'idempotencyKey'>>(
    records: readonly (R['patch'] & { readonly id: Id })[],
    options?: O,
  ): Promise<BatchResults<O>> {
    return this.#batch('PATCH', { records }, 'always', options);
  }

  /**
   * Deletes up to 1,000 records. Not retried after a lost response, because deleted records would be reported as
   * missing.
   */
  deleteMany<const O extends Omit<BatchOptions, 'idempotencyKey'>>(
    ids: readonly Id[],
    options?: O,
  ): Promise<BatchResults<O>> {
    return this.#batch('DELETE', { ids }, 'refused', options);
  }

  /**
   * Changes the same fields of up to 10,000 records that match filters, all or none. Without `confirm`, only counts them.
   * With `confirm`, not retried after a lost response.
   * @throws ApiError 409 `count_changed` if their number has changed since they were counted
   */
  patchAll(filters: BulkFilters<R>, changes: R['patch'], options: BulkOptions = {}): Promise<BulkResult> {
    return this.#bulk('PATCH', filters, stringify(changes, this.#bodyKinds), options);
  }

  /**
   * Deletes up to 10,000 records that match filters, all or none. Without `confirm`, only counts them. With `confirm`, not
   * retried after a lost response.
   * @throws ApiError 409 `count_changed` if their number has changed since they were counted
   */
  deleteAll(filters: BulkFilters<R>, options: BulkOptions = {}): Promise<BulkResult> {
    return this.#bulk('DELETE', filters, undefined, options);
  }

  /**
   * Iterates over all records in a list, sent in one response.
   * @throws ConnectionError if the response is incomplete
   */
  async *export<const T extends HasTrash<R> = never>(
    query: ListFilters<R, T> = {},
  ): AsyncGenerator<Listed<R, FieldOf<R>, never, T>, void, undefined> {
    for await (const line of linesOf(await this.#exportStream(query, ndjson)))
      yield parse(line, this.#kinds) as Listed<R, FieldOf<R>, never, T>;
  }

  /** Returns all records in a list as CSV. */
  exportCsv<const T extends HasTrash<R> = never>(
    query: ListFilters<R, T> = {},
  ): Promise<ReadableStream<Uint8Array>> {
    return this.#exportStream(query, 'text/csv');
  }

  /**
   * Creates records from a file or from objects. Never retried. Check the report for failures, or use `match` so that
   * the import can be repeated safely. CSV columns that are not writable fields are ignored and reported.
   * @param source CSV or NDJSON as text, a file or a stream, or an array of records
   */
  import(
    source: string | Blob | ReadableStream<Uint8Array> | readonly R['input'][],
    { format = 'ndjson', onError, dryRun, match, signal }: ImportOptions = {},
  ): Promise<ImportReport> {
    const query = new URLSearchParams();
    if (onError !== undefined) query.set('on_error', onError);
    if (dryRun !== undefined) query.set('dry_run', String(dryRun));
    if (match !== undefined) query.set('match', match.join());
    return this.#send({
      method: 'POST',
      path: `${this.#path}/import`,
      query,
      headers: { 'content-type': format === 'csv' ? 'text/csv' : ndjson },
      body: isRecords(source)
        ? source.map((record) => `${stringify(record, this.#kinds)}\n`).join('')
        : source,
      ...(signal && { signal }),
      isLenient: format === 'csv',
      resend: 'never',
      timeout: Infinity,
      read: async (response) => parse(await response.text(), {}) as ImportReport,
    });
  }

  #exportStream(query: ListFilters<R, true>, accept: string): Promise<ReadableStream<Uint8Array>> {
    return this.#send({
      ...this.#read(query, {}),
      headers: { accept },
      ...(query.signal && { signal: query.signal }),
      read: async ({ body }) => body ?? new Blob([]).stream(),
    });
  }

  #read(query: ListFilters<R, true> & Selection<string, string>, more: Readonly<Record<string, unknown>>) {
    const { where = {}, q, sort, dir, trashed, fields, expand } = query;
    const parameters = filterParameters(where);
    const options = {
      ...{ q, sort: sortText(sort), dir, trashed },
      ...{ fields: fields?.join(), expand: expand?.join(), ...more },
    };
    for (const [name, value] of Object.entries(options))
      if (value !== undefined) parameters.set(name, String(value));
    return { method: 'GET', path: this.#path, query: parameters, resend: 'always' as const };
  }

  #writeRecord(method: string, id: Id, body: object, { ifMatch, signal }: WriteOptions): Promise<Written<R>> {
    return this.#write(method, this.#pathOf(id), stringify(body, this.#bodyKinds), {
      headers: ifMatch === undefined ? {} : { 'if-match': ifMatch },
      signal,
      read: (response) => this.#record<Written<R>>(response),
    });
  }

  #batch<O extends BatchOptions>(
    method: string,
    body: { records?: readonly object[]; ids?: readonly Id[]; match?: readonly string[] },
    resend: Resend,
    options?: O,
  ): Promise<BatchResults<O>> {
    const { onError, idempotencyKey, signal }: BatchOptions = options ?? {};
    const kinds: Kinds = {
      records: this.#kinds,
      ids: 'int64',
      results: { id: 'int64', existing_id: 'int64' },
    };
    const text = stringify({ ...body, ...(onError !== undefined && { on_error: onError }) }, kinds);
    return this.#write(method, `${this.#path}/batch`, text, {
      headers: method === 'POST' ? { 'idempotency-key': idempotencyKey ?? newKey() } : {},
      signal,
      resend,
      read: async (response) =>
        (parse(await response.text(), kinds) as { readonly results: BatchResults<O> }).results,
    });
  }

  #bulk(
    method: string,
    { where = {}, q }: BulkFilters<R>,
    body: string | undefined,
    { confirm, signal }: BulkOptions,
  ): Promise<BulkResult> {
    const query = filterParameters(where);
    for (const [name, value] of Object.entries({ q, confirm }))
      if (value !== undefined) query.set(name, String(value));
    return this.#send({
      method,
      path: this.#path,
      query,
      preferences: ['bulk'],
      headers: body === undefined ? {} : { 'content-type': json },
      ...(body !== undefined && { body }),
      ...(signal && { signal }),
      resend: confirm === undefined ? 'always' : 'refused',
      read: async (response) => parse(await response.text(), {}) as BulkResult,
    });
  }

  #write<T>(
    method: string,
    path: string,
    body: string | undefined,
    {
      headers,
      signal,
      read,
      resend = 'always',
    }: {
      readonly headers: Readonly<Record<string, string>>;
      readonly signal: AbortSignal | undefined;
      readonly read: (response: Response) => Promise<T>;
      readonly resend?: Resend;
    },
  ): Promise<T> {
    return this.#send({
      method,
      path,
      headers: { ...headers, ...(body !== undefined && { 'content-type': json }) },
      ...(body !== undefined && { body }),
      ...(signal && { signal }),
      resend,
      read,
    });
  }

  #pathOf(id: Id): string {
    return `${this.#path}/${pathId(id)}`;
  }

  async #record<T extends object>(response: Response): Promise<T> {
    const record = parse(await response.text(), this.#kinds) as T;
    const tag = response.headers.get('etag');
    if (tag !== null) tags.set(record, tag);
    return record;
  }
}

/** Returns sort keys as text. */
const sortText = (sort: Values<string> | undefined): string | undefined =>
  sort === undefined ? undefined : [sort].flat().join();

/** Checks the value of a filter. @throws TypeError if it is an integer that is too large to be exact */
function assertExact(name: string, value: unknown): void {
  if (Number.isInteger(value) && !Number.isSafeInteger(value))
    throw new TypeError(`${name} cannot be sent exactly: ${value}`);
}

/** Checks the values in conditions. @throws TypeError if one is an integer that is too large to be exact */
function assertExactConditions(conditions: object, name = 'where'): void {
  const field = 'field' in conditions ? String(conditions.field) : name;
  for (const value of Object.values(conditions)) {
    if (typeof value === 'object' && value !== null) assertExactConditions(value, field);
    else assertExact(field, value);
  }
}

/**
 * Converts filters to query parameters.
 * @throws TypeError if a filter does not have a value, because the API would ignore the filter
 */
function filterParameters(where: object): URLSearchParams {
  const parameters = new URLSearchParams();
  const add = (name: string, value: unknown) => {
    const values = Array.isArray(value) ? value : [value];
    const isEmpty =
      values.length === 0 || values.some((item) => item === undefined || item === null || item === '');
    if (isEmpty) throw new TypeError(`${name} has no value: the list would not be filtered`);
    for (const item of values) {
      assertExact(name, item);
      parameters.append(name, String(item));
    }
  };
  for (const [field, condition] of Object.entries(where)) {
    if (typeof condition !== 'object' || condition === null || Array.isArray(condition))
      add(field, condition);
    else for (const [operator, value] of Object.entries(condition)) add(`${field}[${operator}]`, value);
  }
  return parameters;
}

/**
 * Iterates over the items on all pages.
 * @param read reads the page at a cursor, which is undefined for the first page
 */
async function* walk<T>(
  read: (cursor: string | undefined) => Promise<Pick<ListPage<T>, 'data' | 'next'>>,
): AsyncGenerator<T, void, undefined> {
  let cursor: string | undefined;
  do {
    const { data, next } = await read(cursor);
    yield* data;
    cursor = next;
  } while (cursor !== undefined);
}

/** Returns the cursor from the Link header. Ignores the rest of the URL, because it could point to another host. */
function nextCursor(headers: Headers): string | undefined {
  const [, url] = /<([^>]+)>; rel="next"/.exec(headers.get('link') ?? '') ?? [];
  return url === undefined ? undefined : (new URL(url, 'http://x').searchParams.get('cursor') ?? undefined);
}

/** Creates a random key. crypto.randomUUID is not available on pages without TLS. */
const newKey = (): string =>
  Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, '0')).join(
    '',
  );

const isRecords = <T>(source: string | object | readonly T[]): source is readonly T[] =>
  Array.isArray(source);

/** Iterates over the lines of a stream. Uses a reader, because streams are not async iterable in Safari. */
async function* linesOf(stream: ReadableStream<Uint8Array>): AsyncGenerator<string, void, undefined> {
  const reader = stream.getReader();
  const decoder = new TextDecoder();
  const failed = (cause: unknown) => {
    throw new ConnectionError('the connection failed before the end of the export', { cause });
  };
  let buffer = '';
  try {
    for (
      let chunk = await reader.read().catch(failed);
      !chunk.done;
      chunk = await reader.read().catch(failed)
    ) {
      const lines = (buffer + decoder.decode(chunk.value, { stream: true })).split('\n');
      buffer = lines.pop() ?? '';
      yield* lines;
    }
  } finally {
    await reader.cancel().catch(() => {});
  }
}

/**
 * The records of each resource, keyed by the resource's name, and the other API calls. If a resource and a
 * call have the same name, the resource takes precedence.
 */
export type ClientOf<T extends Readonly<Record<keyof T, ResourceTypes>>> = {
  readonly [Name in keyof T]: Records<T[Name]>;
} & Omit<InstanceCalls<T>, keyof T>;

/** Creates a client for the given resources. @throws TypeError if the runtime would round numbers */
export function clientOf<T extends Readonly<Record<keyof T, ResourceTypes>>>(
  resources: Readonly<Record<keyof T & string, ResourceInfo>>,
  options: ClientOptions,
): ClientOf<T> {
  requireExactNumbers();
  const send = sender(options);
  const names = Object.keys(resources);
  const records = Object.fromEntries(names.map((name) => [name, new Records(send, name, resources)]));
  return { ...instanceCalls<T>(send, resources), ...records } as ClientOf<T>;
}
