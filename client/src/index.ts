// A typed client of a CRM engine's REST API. README.md shows what it does.
// Each name of ours is listed, because then it hides a resource of that name instead of failing.
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
