// API calls that do not belong to a resource: the caller, the change feed and event subscriptions.
import { changeKinds } from './changes.ts';
import type { Change, Id, ResourceInfo, ResourceTypes } from './client.ts';
import { NotFoundError } from './errors.ts';
import { type CallOptions, pathId, type Request, type Send } from './http.ts';
import { type Kinds, parse, stringify } from './json.ts';

type Types<T> = Readonly<Record<keyof T, ResourceTypes>>;

/** Actions, keyed by resource. `*` denotes every resource. */
export type Grants = Readonly<Record<string, readonly string[]>>;

/** The caller, as returned by `GET /auth/me`. */
export interface Me {
  /** Null if the caller is an API key. */
  readonly user: { readonly id: bigint; readonly email: string } | null;
  readonly organizations: readonly {
    readonly id: bigint;
    readonly slug: string;
    readonly name: string;
    readonly profile: string;
    readonly grants: Grants;
  }[];
  /** Present if the caller is an API key. */
  readonly key?: {
    readonly id: bigint;
    readonly name: string;
    readonly last_four: string;
    readonly profile: string;
    readonly expires_at: string | null;
    /** Absent if the key can do everything that its grants allow. */
    readonly access?: 'read-only' | 'propose';
    /** The member on whose behalf the key acts. Absent for other keys. */
    readonly on_behalf_of?: {
      readonly id: bigint;
      readonly email: string;
      readonly name?: string;
      readonly profile: string;
      /** The key can do only what both these grants and its own grants allow. */
      readonly grants: Grants;
    };
  };
  /** Present if the caller is an API key. */
  readonly grants?: Grants;
  readonly limits: {
    readonly per_page: number;
    readonly body_bytes: number;
    /** Null if requests are not limited. */
    readonly rate: { readonly requests: number; readonly window_seconds: number } | null;
  };
}

export interface PermissionsQuery<Name extends string> extends CallOptions {
  /** Returns only the permissions on this resource. */
  readonly resource?: Name;
  /** ID of a record of `resource`. */
  readonly id?: Id;
}

/** Whether the caller can perform an action, and the reason. */
export interface ActionPermission {
  readonly allowed: boolean;
  /** Scopes to which the caller's grants limit the action. A record must be in at least one of them. */
  readonly scopes?: readonly string[];
  /** For a key on behalf of a member, scopes to which the member's grants also limit the action. */
  readonly within?: readonly string[];
  /** The grant that would allow the action. */
  readonly grant?: string;
}

/** The caller's permissions on a resource or record. */
export interface ResourcePermissions {
  readonly actions: Readonly<
    Record<'list' | 'read' | 'create' | 'update' | 'delete', ActionPermission> & {
      /** Only resources with a trash have it. */
      restore?: ActionPermission;
    }
  >;
  readonly fields: {
    readonly readable: readonly string[];
    readonly writable: readonly string[];
    /** Fields that the caller cannot read or write, with the grants that would allow it. */
    readonly missing: readonly { readonly field: string; readonly grant: string }[];
  };
}

/** The caller's permissions, as returned by `GET /auth/permissions`. */
export interface Permissions<Name extends string> {
  readonly resources: Readonly<Partial<Record<Name, ResourcePermissions>>>;
}

export interface EventsQuery<Name extends string> extends CallOptions {
  /** An earlier page's `next`, or `now` to skip all changes so far. Default: the oldest change. */
  readonly after?: string;
  /** Resources whose changes are returned. Default: every resource that the caller is allowed to list. */
  readonly resources?: readonly Name[];
  /** Whether to wait for further changes until the signal is aborted, instead of stopping after the last change. */
  readonly follow?: boolean;
}

/** A change to a record of one of the resources. */
export type ChangeOf<T extends Types<T>> = {
  readonly [Name in keyof T & string]: Change<T[Name]> & { readonly resource: Name };
}[keyof T & string];

/** A page of changes, in order. */
export interface EventsPage<T extends Types<T>> {
  readonly data: readonly ChangeOf<T>[];
  /** Cursor after these changes. Store it after processing them, and pass it as `after` to resume. */
  readonly next: string;
}

/** A value of a field, or a list of values. */
type TransitionValues = FieldValue | readonly FieldValue[];
type FieldValue = string | number | boolean | null;

export interface SubscriptionInput {
  /** URL that events are sent to. */
  readonly url: string;
  readonly resources: readonly string[];
  /** Actions that trigger events. Default: all. */
  readonly actions?: readonly ('create' | 'update' | 'delete')[];
  /** Filters that a record must match, written as the query parameters of a list, for example `status=New`. */
  readonly filter?: string;
  /**
   * `matches` sends changes if the record matches the filter when the event is sent, `enters` and `leaves` changes that make
   * the record match the filter or stop matching it. Default: `matches`.
   */
  readonly filter_when?: 'matches' | 'enters' | 'leaves';
  /** Only updates that change each of these fields from and to these values are sent. Default: all changes. */
  readonly transitions?: Readonly<
    Record<string, { readonly from?: TransitionValues; readonly to?: TransitionValues }>
  >;
  /** Format of the request bodies: `cloudevents` stands for the JSON format of CloudEvents 1.0. Default: `standard`. */
  readonly format?: 'standard' | 'cloudevents';
  /**
   * Sends up to `max_events` events (1 to 100, default: 100) in one request, each of which waits for at most
   * `max_wait_seconds` (1 to 300, default: 5). Null, the default, sends each event in its own request.
   */
  readonly batch?: { readonly max_events?: number; readonly max_wait_seconds?: number } | null;
}

export interface SubscriptionChanges extends Partial<SubscriptionInput> {
  readonly state?: 'on' | 'off';
}

export interface Subscription extends Required<SubscriptionInput> {
  readonly id: bigint;
  /** Name of the profile whose grants determine what the events contain. */
  readonly profile: string;
  /** `gone` if the receiver responded with 410, or `failed` if no event could be delivered for five days. */
  readonly state: 'on' | 'off' | 'gone' | 'failed' | (string & {});
  readonly failing_since: string | null;
  readonly created_at: string;
}

export interface Delivery {
  readonly id: bigint;
  /** Description of the event, for example `update leads 5 v2`. */
  readonly event: string;
  readonly status: DeliveryStatus | (string & {});
  readonly attempts: number;
  /** The reason the last attempt failed, or an empty string. */
  readonly error: string;
  readonly queued_at: string;
  /** Method and headers of the last request. */
  readonly request: string;
  /** Status line and headers of the last response, or an empty string if there was no response. */
  readonly response: string;
  /** Events in the batch, if the delivery is a batch. */
  readonly events?: readonly string[];
}
/** `dead` deliveries are not retried. */
export type DeliveryStatus = 'waiting' | 'done' | 'dead';

/** Events to resend: the deliveries in a range of IDs, or all changes after a change feed cursor. */
export type ReplayQuery = { readonly from: Id; readonly to?: Id } | { readonly after: string };

/** Time that a request waits for changes, in seconds. This is the maximum that the instance allows. */
const waitSeconds = 25;
const json = { 'content-type': 'application/json' };
const path = '/events/subscriptions';
/** Number types for the bodies of requests. */
const bodyKinds: Kinds = { from: 'int64', to: 'int64' };

const read =
  <T>(kinds: Kinds) =>
  async (response: Response): Promise<T> =>
    parse(await response.text(), kinds) as T;

/** Returns common request options. These paths do not support `handling=strict`. */
const common = ({ signal }: CallOptions) => ({ isLenient: true, ...(signal && { signal }) });

/** The organization's event subscriptions. */
export class Subscriptions {
  readonly #send: Send;

  constructor(send: Send) {
    this.#send = send;
  }

  /** Returns all subscriptions, oldest first. */
  async list(options: CallOptions = {}): Promise<readonly Subscription[]> {
    const { data } = await this.#send({
      ...common(options),
      method: 'GET',
      path,
      resend: 'always',
      read: read<{ readonly data: readonly Subscription[] }>({ data: { id: 'int64' } }),
    });
    return data;
  }

  /** Returns a subscription. @throws NotFoundError if it does not exist */
  get(id: Id, options: CallOptions = {}): Promise<Subscription> {
    return this.#call('GET', id, '', options, 'always');
  }

  /** Creates a subscription. Only this call returns its `secret`. Not retried after a lost response. */
  create(
    input: SubscriptionInput,
    options: CallOptions = {},
  ): Promise<Subscription & { readonly secret: string }> {
    return this.#send({
      ...common(options),
      method: 'POST',
      path,
      headers: json,
      body: stringify(input, {}),
      resend: 'refused',
      read: read({ id: 'int64' }),
    });
  }

  /** Changes, enables or disables a subscription. @throws NotFoundError if it does not exist */
  update(id: Id, changes: SubscriptionChanges, options: CallOptions = {}): Promise<Subscription> {
    return this.#call('PATCH', id, '', options, 'always', changes);
  }

  /** Deletes a subscription and its deliveries. @throws NotFoundError if it does not exist */
  async delete(id: Id, options: CallOptions = {}): Promise<void> {
    try {
      await this.#call('DELETE', id, '', options, 'always');
    } catch (error) {
      // An earlier attempt, whose response was lost, has deleted the subscription.
      if (!(error instanceof NotFoundError && error.isUncertain)) throw error;
    }
  }

  /** Creates a new secret for a subscription. For a limited time, events are also signed with the previous secret. */
  rotateSecret(id: Id, options: CallOptions = {}): Promise<{ readonly secret: string }> {
    return this.#call('POST', id, '/secrets', options, 'refused');
  }

  /** Sends a test event. @returns the ID of its delivery */
  async test(id: Id, options: CallOptions = {}): Promise<bigint> {
    const { delivery } = await this.#call<{ readonly delivery: bigint }>(
      'POST',
      id,
      '/test',
      options,
      'refused',
    );
    return delivery;
  }

  /** Resends events. @returns the number of queued deliveries */
  async replay(id: Id, query: ReplayQuery, options: CallOptions = {}): Promise<number> {
    const { queued } = await this.#call<{ readonly queued: number }>(
      'POST',
      id,
      '/replay',
      options,
      'refused',
      query,
    );
    return queued;
  }

  /**
   * Iterates over a subscription's deliveries, newest first.
   * @throws NotFoundError if the subscription does not exist
   */
  async *deliveries(
    id: Id,
    { status, ...options }: CallOptions & { readonly status?: DeliveryStatus } = {},
  ): AsyncGenerator<Delivery, void, undefined> {
    let before: bigint | null = null;
    do {
      const query = new URLSearchParams(status === undefined ? {} : { status });
      if (before !== null) query.set('before', String(before));
      const page: { readonly data: readonly Delivery[]; readonly next: bigint | null } = await this.#send({
        ...common(options),
        method: 'GET',
        path: `${path}/${pathId(id)}/deliveries`,
        query,
        resend: 'always',
        read: read({ data: { id: 'int64' }, next: 'int64' }),
      });
      yield* page.data;
      before = page.next;
    } while (before !== null);
  }

  #call<T>(
    method: string,
    id: Id,
    subpath: string,
    options: CallOptions,
    resend: Request<T>['resend'],
    body?: object,
  ): Promise<T> {
    return this.#send({
      ...common(options),
      method,
      path: `${path}/${pathId(id)}${subpath}`,
      ...(body && { headers: json, body: stringify(body, bodyKinds) }),
      resend,
      read: read<T>({ id: 'int64', delivery: 'int64' }),
    });
  }
}

/** API calls that do not belong to a resource. */
export interface InstanceCalls<T extends Types<T>> {
  /** Returns the caller: the user or API key, its organizations and grants, and the instance's limits. */
  readonly me: (options?: CallOptions) => Promise<Me>;
  /**
   * Returns what the caller can do with each resource or, with `resource` and `id`, with a record.
   * @throws NotFoundError if the caller cannot read the record
   */
  readonly permissions: (
    query?: PermissionsQuery<keyof T & string>,
  ) => Promise<Permissions<keyof T & string>>;
  /**
   * Iterates over the pages of the change feed, in order.
   * @throws ApiError with the code `cursor_expired` if changes after the cursor have already been deleted
   */
  readonly events: (query?: EventsQuery<keyof T & string>) => AsyncGenerator<EventsPage<T>, void, undefined>;
  readonly subscriptions: Subscriptions;
}

/** Creates the calls that do not belong to a resource. */
export function instanceCalls<T extends Types<T>>(
  send: Send,
  resources: Readonly<Record<string, ResourceInfo>>,
): InstanceCalls<T> {
  const id = { id: 'int64' } as const;
  const page: Kinds = { data: changeKinds(resources) };

  async function* events({ after, resources: names, follow = false, ...options }: EventsQuery<string> = {}) {
    for (let cursor = after; ; ) {
      const query = new URLSearchParams(cursor === undefined ? {} : { after: cursor });
      if (names !== undefined) query.set('resources', names.join());
      if (follow && cursor !== 'now') query.set('wait', String(waitSeconds));
      const currentPage = await send({
        ...common(options),
        method: 'GET',
        path: '/events',
        query,
        resend: 'always',
        // The timeout must be longer than the instance waits for changes.
        ...(follow && { timeout: 2 * waitSeconds * 1000 }),
        read: read<EventsPage<T>>(page),
      });
      yield currentPage;
      if (currentPage.data.length === 0 && !follow) return;
      cursor = currentPage.next;
    }
  }

  return {
    me: (options = {}) =>
      send({
        ...common(options),
        method: 'GET',
        path: '/auth/me',
        resend: 'always',
        read: read<Me>({ user: id, organizations: id, key: { ...id, on_behalf_of: id } }),
      }),
    permissions: ({ resource, id: record, ...options } = {}) => {
      const query = new URLSearchParams(resource === undefined ? {} : { resource });
      if (record !== undefined) query.set('id', pathId(record));
      return send({
        ...common(options),
        method: 'GET',
        path: '/auth/permissions',
        query,
        resend: 'always',
        read: read<Permissions<keyof T & string>>({}),
      });
    },
    events,
    subscriptions: new Subscriptions(send),
  };
}
