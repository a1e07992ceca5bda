// A typed client for a CRM engine's REST API. See README.md.
// Names are exported one by one, so that they take precedence over resources with the same name.
export {
  type BatchFailure,
  type BatchOptions,
  type BatchResults,
  type BatchSuccess,
  type Change,
  type CreateOptions,
  etag,
  type Id,
  type ImportOptions,
  type ImportReport,
  type ListFilters,
  type ListPage,
  type ListQuery,
  Records,
  type ResourceTypes,
  type Selected,
  type Selection,
  type Values,
  type WriteOptions,
} from './client.ts';
export {
  ApiError,
  ConnectionError,
  CrmError,
  DuplicateError,
  type FieldError,
  ForbiddenError,
  InvalidInputError,
  NotFoundError,
  PreconditionFailedError,
  RateLimitedError,
  UnauthenticatedError,
} from './errors.ts';
export { type EventHeaders, type EventOf, InvalidEventError } from './events.ts';
export type { CallOptions, ClientOptions } from './http.ts';
export type {
  ChangeOf,
  Delivery,
  DeliveryStatus,
  EventsPage,
  EventsQuery,
  Grants,
  Me,
  ReplayQuery,
  Subscription,
  SubscriptionChanges,
  SubscriptionInput,
  Subscriptions,
} from './instance.ts';
export * from './resources.ts';
