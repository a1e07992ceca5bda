// What callers do with the records of a resource.

import { kindsOfChange } from './changes.ts';
import { ConnectionError, type FieldError, NotFoundError, PreconditionFailedError } from './errors.ts';
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
import type { ErrorCode } from './resources.ts';

/** The types of a resource. What it does not have is `never`. */
export interface ResourceTypes {
  readonly record: { readonly id: bigint };
  readonly input: object;
  readonly patch: object;
  readonly filters: object;
  readonly search: string;
  readonly sort: string;
  /** The records that references point to, by the names of the references. */
  readonly expanded: object;
  /** The fields that records can be matched by. */
  readonly match: readonly string[];
}

/** What the client knows of a resource when it runs. */
export interface ResourceInfo {
  /** Its fields that are numbers. */
  readonly numbers: Kinds;
  /** The resources that its references point to. */
  readonly references: Readonly<Record<string, string>>;
}

/** The values of a filter: one, or several of which each will do. */
export type Values<T> = T | readonly T[];
/** Identifies a record; a bigint, as records have it, or a number up to 2^53. */
export type Id = bigint | number;
type FieldOf<R extends ResourceTypes> = keyof R['record'] & string;
type ReferenceOf<R extends ResourceTypes> = keyof R['expanded'] & string;

/** Which records a list has, and in which order. */
export interface ListFilters<R extends ResourceTypes> extends CallOptions {
  /** Conditions that must all hold: `{ status: 'New', created_at: { gte: '2026-03-01T00:00:00Z' } }`. */
  readonly where?: R['filters'];
  /** Words that records must have, somewhere in the fields that are searched. */
  readonly q?: R['search'];
  readonly sort?: R['sort'];
  readonly dir?: [R['sort']] extends [never] ? never : 'asc' | 'desc';
}

/** What is shown of records. */
export interface Selection<F extends string, E extends string> extends CallOptions {
  /** Only these fields, and `id`. */
  readonly fields?: readonly F[];
  /** References whose records come along under `expanded`. */
  readonly expand?: readonly E[];
}

export interface ListQuery<R extends ResourceTypes, F extends string, E extends string>
  extends ListFilters<R>,
    Selection<F, E> {
  /** The `next` of the page before; everything else must be as it was there. */
  readonly cursor?: string;
  /** A page by its number, counted now. Prefer `cursor`: pages shift while others write. */
  readonly page?: number;
  /** Count the records of all pages into `total`. */
  readonly count?: 'exact' | 'estimated';
}

/** A record with the selected fields and references. */
export type Selected<R extends ResourceTypes, F extends string, E extends string> = ([FieldOf<R>] extends [F]
  ? R['record']
  : Pick<R['record'], (F | 'id') & keyof R['record']>) &
  ([E] extends [never] ? unknown : { readonly expanded: Pick<R['expanded'], E & keyof R['expanded']> });

export interface ListPage<T> {
  readonly data: readonly T[];
  /** The cursor of the next page; undefined on the last one. */
  readonly next: string | undefined;
  /** How many records all pages have, with `count`. */
  readonly total: number | undefined;
}

export interface WriteOptions extends CallOptions {
  /** Write only if the record is still as it was when it was read: its `etag`. */
  readonly ifMatch?: string;
}

export interface CreateOptions extends CallOptions {
  /** Makes this create the same as an earlier one, of an earlier process for example. Default: a random text. */
  readonly idempotencyKey?: string;
}

export interface BatchOptions extends CreateOptions {
  /** `stop`, the default: all records are written, or none. `continue`: those that can be. */
  readonly onError?: 'stop' | 'continue';
}

/** What became of a record of a batch: 201 created, 200 changed or deleted. */
export interface BatchSuccess {
  readonly status: 200 | 201;
  readonly id: bigint;
}

/** Why a record of a batch was not written, with `onError: 'continue'`. */
export interface BatchFailure {
  readonly status: 400 | 404 | 409;
  readonly error: string;
  readonly code: ErrorCode | (string & {});
  readonly fields?: readonly FieldError[];
  /** Number of wrong fields that `fields` leaves out. */
  readonly more?: number;
  readonly existing_id?: bigint;
}

/** The results of a batch, in the order of its records. */
export type BatchResults<O extends BatchOptions> = readonly (O extends { readonly onError: 'continue' }
  ? BatchSuccess | BatchFailure
  : BatchSuccess)[];

export interface ImportOptions extends CallOptions {
  /** Default: `ndjson`. */
  readonly format?: 'ndjson' | 'csv';
  /** `continue`, the default: every line that can be written; `stop`: none after the first that fails. */
  readonly onError?: 'stop' | 'continue';
  /** Validate everything and write nothing. */
  readonly dryRun?: boolean;
  /** Change records that have the same values of these unique fields. */
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
    /** Number of wrong fields that `fields` leaves out. */
    readonly more?: number;
  }[];
}

/** A change of a record. */
export interface Change<R extends ResourceTypes> {
  /** Identifies the change. */
  readonly position: string;
  readonly at: string;
  readonly actor: { readonly kind: string; readonly id: bigint | null; readonly name: string | null };
  readonly request_id: string | null;
  readonly resource: string;
  readonly id: bigint;
  readonly action: 'create' | 'update' | 'delete';
  /** How many changes of the record there had been with this one. */
  readonly version: bigint;
  readonly changed: readonly string[];
  /** Without fields that show other records, and those that are sensitive. */
  readonly before: Partial<R['record']> | null;
  readonly after: Partial<R['record']> | null;
}

/** How often `update` reads and writes again when others change the record in between. */
const maxConflicts = 20;
const json = 'application/json';
const ndjson = 'application/x-ndjson';

const tags = new WeakMap<object, string>();
/** The version of a record, for `ifMatch`; undefined if it was not returned whole by get, create, patch or replace. */
export const etag = (record: object): string | undefined => tags.get(record);

/** The records of a resource. */
export class Records<R extends ResourceTypes> {
  readonly #send: Send;
  readonly #path: string;
  readonly #kinds: Kinds;

  constructor(send: Send, name: string, resources: Readonly<Record<string, ResourceInfo>>) {
    const { numbers = {}, references = {} } = resources[name] ?? {};
    const expanded = Object.entries(references).map(([reference, to]) => [
      reference,
      resources[to]?.numbers ?? {},
    ]);
    this.#send = send;
    this.#path = `/api/v1/${name}`;
    this.#kinds = { ...numbers, expanded: Object.fromEntries(expanded) as Kinds };
  }

  /** A page of up to 20 records. */
  list<const F extends FieldOf<R> = FieldOf<R>, const E extends ReferenceOf<R> = never>(
    query: ListQuery<R, F, E> = {},
  ): Promise<ListPage<Selected<R, F, E>>> {
    const { cursor, page, count, signal } = query;
    return this.#send({
      ...this.#read(query, { cursor, page }),
      ...(count !== undefined && { preferences: [`count=${count}`] }),
      ...(signal && { signal }),
      read: async (response) => {
        const { data } = parse(await response.text(), { data: this.#kinds }) as { data: Selected<R, F, E>[] };
        const total = response.headers.get('x-total-count');
        return {
          data,
          next: nextCursor(response.headers),
          total: total === null ? undefined : Number(total),
        };
      },
    });
  }

  /** All records of a list, page after page: each that is there throughout once, whatever others write. */
  async *all<const F extends FieldOf<R> = FieldOf<R>, const E extends ReferenceOf<R> = never>(
    query: ListFilters<R> & Selection<F, E> = {},
  ): AsyncGenerator<Selected<R, F, E>, void, undefined> {
    yield* walk((cursor) => this.list<F, E>({ ...query, ...(cursor !== undefined && { cursor }) }));
  }

  /** A record. @throws NotFoundError */
  get<const F extends FieldOf<R> = FieldOf<R>, const E extends ReferenceOf<R> = never>(
    id: Id,
    selection: Selection<F, E> = {},
  ): Promise<Selected<R, F, E>> {
    const { signal } = selection;
    return this.#send({
      ...this.#read(selection, {}),
      path: this.#at(id),
      ...(signal && { signal }),
      read: (response) => this.#record<Selected<R, F, E>>(response),
    });
  }

  /** Creates a record, once, however often it has to be sent. */
  create(record: R['input'], { idempotencyKey, signal }: CreateOptions = {}): Promise<R['record']> {
    return this.#write('POST', this.#path, stringify(record, this.#kinds), {
      headers: { 'idempotency-key': idempotencyKey ?? newKey() },
      signal,
      read: (response) => this.#record<R['record']>(response),
    });
  }

  /** Replaces a record: writable fields that are absent get their defaults. */
  replace(id: Id, record: R['input'], options: WriteOptions = {}): Promise<R['record']> {
    return this.#change('PUT', id, record, options);
  }

  /** Changes the given fields of a record. */
  patch(id: Id, changes: R['patch'], options: WriteOptions = {}): Promise<R['record']> {
    return this.#change('PATCH', id, changes, options);
  }

  /**
   * Reads a record, and changes the fields that the function returns, if it has not been changed in the meantime;
   * otherwise begins again. Nothing is written if it returns undefined.
   * @throws PreconditionFailedError with `isUncertain` if an attempt got no response and may have been carried out:
   *   applying the function again could apply it twice
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

  /** Deletes a record. @throws NotFoundError */
  async delete(id: Id, { ifMatch, signal }: WriteOptions = {}): Promise<void> {
    try {
      await this.#write('DELETE', this.#at(id), undefined, {
        headers: ifMatch === undefined ? {} : { 'if-match': ifMatch },
        signal,
        read: (response) => response.text(),
      });
    } catch (error) {
      // It is gone, by an attempt whose response was lost.
      if (!(error instanceof NotFoundError && error.isUncertain)) throw error;
    }
  }

  /** The changes of a record, newest first, also of one that is gone. @throws NotFoundError */
  async *history(id: Id, { signal }: CallOptions = {}): AsyncGenerator<Change<R>, void, undefined> {
    const change = kindsOfChange(this.#kinds);
    yield* walk((cursor) =>
      this.#send({
        method: 'GET',
        path: `${this.#at(id)}/history`,
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

  /** Creates up to 1,000 records by one request. */
  createMany<const O extends BatchOptions>(
    records: readonly R['input'][],
    options?: O,
  ): Promise<BatchResults<O>> {
    return this.#batch('POST', { records }, 'always', options);
  }

  /** Changes each record that has the same values of the fields `match`, and creates the others; up to 1,000. */
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

  /** Deletes up to 1,000 records. Not sent again after a lost response: deleted records would be missing ones. */
  deleteMany<const O extends Omit<BatchOptions, 'idempotencyKey'>>(
    ids: readonly Id[],
    options?: O,
  ): Promise<BatchResults<O>> {
    return this.#batch('DELETE', { ids }, 'refused', options);
  }

  /** All records of a list as one response. @throws ConnectionError if it is cut off */
  async *export(query: ListFilters<R> = {}): AsyncGenerator<R['record'], void, undefined> {
    for await (const line of linesOf(await this.#exported(query, ndjson)))
      yield parse(line, this.#kinds) as R['record'];
  }

  /** All records of a list as CSV, to be stored somewhere. */
  exportCsv(query: ListFilters<R> = {}): Promise<ReadableStream<Uint8Array>> {
    return this.#exported(query, 'text/csv');
  }

  /**
   * Creates records from a file, or from objects. Not sent again: look at the report, or use `match`. Columns of CSV
   * that are not writable fields are ignored and reported.
   * @param source CSV or NDJSON as text, file or stream; or records
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

  #exported(query: ListFilters<R>, accept: string): Promise<ReadableStream<Uint8Array>> {
    return this.#send({
      ...this.#read(query, {}),
      headers: { accept },
      ...(query.signal && { signal: query.signal }),
      read: async ({ body }) => body ?? new Blob([]).stream(),
    });
  }

  #read(query: ListFilters<R> & Selection<string, string>, more: Readonly<Record<string, unknown>>) {
    const { where = {}, q, sort, dir, fields, expand } = query;
    const parameters = filterParameters(where);
    const others = { q, sort, dir, fields: fields?.join(), expand: expand?.join(), ...more };
    for (const [name, value] of Object.entries(others))
      if (value !== undefined) parameters.set(name, String(value));
    return { method: 'GET', path: this.#path, query: parameters, resend: 'always' as const };
  }

  #change(method: string, id: Id, body: object, { ifMatch, signal }: WriteOptions): Promise<R['record']> {
    return this.#write(method, this.#at(id), stringify(body, this.#kinds), {
      headers: ifMatch === undefined ? {} : { 'if-match': ifMatch },
      signal,
      read: (response) => this.#record<R['record']>(response),
    });
  }

  #batch<O extends BatchOptions>(
    method: string,
    body: { records?: readonly object[]; ids?: readonly Id[]; match?: readonly string[] },
    resend: Resend,
    options?: O,
  ): Promise<BatchResults<O>> {
    const { onError, idempotencyKey, signal }: BatchOptions = options ?? {};
    const kinds: Kinds = { records: this.#kinds, results: { id: 'int64', existing_id: 'int64' } };
    const text = stringify({ ...body, ...(onError !== undefined && { on_error: onError }) }, kinds);
    return this.#write(method, `${this.#path}/batch`, text, {
      headers: method === 'POST' ? { 'idempotency-key': idempotencyKey ?? newKey() } : {},
      signal,
      resend,
      read: async (response) =>
        (parse(await response.text(), kinds) as { readonly results: BatchResults<O> }).results,
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

  #at(id: Id): string {
    return `${this.#path}/${pathId(id)}`;
  }

  async #record<T extends object>(response: Response): Promise<T> {
    const record = parse(await response.text(), this.#kinds) as T;
    const tag = response.headers.get('etag');
    if (tag !== null) tags.set(record, tag);
    return record;
  }
}

/** Parameters of filters. @throws TypeError for one that would filter nothing */
function filterParameters(where: object): URLSearchParams {
  const parameters = new URLSearchParams();
  const add = (name: string, value: unknown) => {
    const values = Array.isArray(value) ? value : [value];
    const isEmpty =
      values.length === 0 || values.some((each) => each === undefined || each === null || each === '');
    if (isEmpty) throw new TypeError(`${name} has no value: the list would not be filtered`);
    for (const each of values) {
      if (Number.isInteger(each) && !Number.isSafeInteger(each))
        throw new TypeError(`${name} cannot be sent exactly: ${each}`);
      parameters.append(name, String(each));
    }
  };
  for (const [field, condition] of Object.entries(where)) {
    if (typeof condition !== 'object' || condition === null || Array.isArray(condition))
      add(field, condition);
    else for (const [operator, value] of Object.entries(condition)) add(`${field}[${operator}]`, value);
  }
  return parameters;
}

/** Everything on the pages of a list. @param read gets the cursor of a page, undefined for the first */
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

/** The cursor in `Link`. Only the cursor: the address might lead elsewhere. */
function nextCursor(headers: Headers): string | undefined {
  const [, address] = /<([^>]+)>; rel="next"/.exec(headers.get('link') ?? '') ?? [];
  return address === undefined
    ? undefined
    : (new URL(address, 'http://x').searchParams.get('cursor') ?? undefined);
}

/** Creates a unique text; crypto.randomUUID is not available on pages without TLS. */
const newKey = (): string =>
  Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, '0')).join(
    '',
  );

const isRecords = <T>(source: string | object | readonly T[]): source is readonly T[] =>
  Array.isArray(source);

/** The lines of a stream, read with a reader because Safari's streams cannot be iterated. */
async function* linesOf(stream: ReadableStream<Uint8Array>): AsyncGenerator<string, void, undefined> {
  const reader = stream.getReader();
  const decoder = new TextDecoder();
  const cut = (cause: unknown) => {
    throw new ConnectionError('the connection failed before the end of the export', { cause });
  };
  let rest = '';
  try {
    for (let part = await reader.read().catch(cut); !part.done; part = await reader.read().catch(cut)) {
      const lines = (rest + decoder.decode(part.value, { stream: true })).split('\n');
      rest = lines.pop() ?? '';
      yield* lines;
    }
  } finally {
    await reader.cancel().catch(() => {});
  }
}

/** The resources of an instance, by their names, and its other calls. A resource with the name of a call hides it. */
export type ClientOf<T extends Readonly<Record<keyof T, ResourceTypes>>> = {
  readonly [Name in keyof T]: Records<T[Name]>;
} & Omit<InstanceCalls<T>, keyof T>;

/** Creates a client of the given resources. @throws TypeError if the runtime would round numbers */
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
