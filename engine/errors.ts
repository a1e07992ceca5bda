// Errors: every error that a client can receive, with its HTTP status, code, text and hint.
// Must not import other project code. Any folder can import it.
import { existsSync } from 'node:fs';
import { STATUS_CODES } from 'node:http';

/** The values that a type accepts. */
export type Expectation =
  | {
      readonly type:
        | 'boolean'
        | 'country'
        | 'currency'
        | 'customValues'
        | 'date'
        | 'document'
        | 'email'
        | 'iana_timezone'
        | 'iban'
        | 'int64'
        | 'list'
        | 'member'
        | 'number'
        | 'phone'
        | 'record'
        | 'string'
        | 'timestamp'
        | 'url';
    }
  | { readonly type: 'integer'; readonly min: number; readonly max: number }
  | { readonly type: 'money'; readonly currency: string }
  | { readonly type: 'records'; readonly max: number }
  | { readonly type: 'recordOf'; readonly resources: readonly string[] }
  | { readonly type: 'text'; readonly maxLength: number };

/** A rule of a field that a value violates. */
export type RuleReason =
  | { readonly kind: 'expected'; readonly expects: Expectation | undefined }
  | {
      readonly kind: 'min' | 'max' | 'min_length' | 'max_length' | 'max_items';
      readonly limit: number;
    }
  | { readonly kind: 'pattern'; readonly pattern: string }
  | { readonly kind: 'closed'; readonly values: readonly string[] };

/** Why a value is invalid. The pages of the admin UI explain it in the user's language. */
export type IssueReason =
  | RuleReason
  /** The message is a text from a definition or a module, in the language of its author. */
  | { readonly kind: 'message' }
  | { readonly kind: 'required' | 'characters' }
  /** A value violates one of several rules. */
  | { readonly kind: 'rules'; readonly reasons: readonly RuleReason[] }
  | { readonly kind: 'missingRecord'; readonly id: string }
  | { readonly kind: 'notMember' }
  | { readonly kind: 'duplicate'; readonly isCombination: boolean }
  | {
      readonly kind: 'transition';
      /** The value from which the field cannot change. Absent for a new record. */
      readonly previous?: string | undefined;
      readonly value: string | undefined;
      readonly allowed: readonly string[];
      readonly isNew: boolean;
    };

/** Key of an issue's or an error's reason. Because it is a symbol, JSON never contains the reason. */
export const reasonKey: unique symbol = Symbol('reason');

/** An issue with one field or parameter of a request. */
export interface FieldIssue {
  readonly field: string;
  readonly message: string;
  /** Suggested fix. Part of the message. */
  readonly hint?: string;
  readonly [reasonKey]?: IssueReason;
}

/** Maximum number of `fields` entries per error, and per response with several errors. */
const [maxFields, maxResponseFields] = [100, 1000];
/** Maximum lengths of a name echoed from a request and of a combined message, in characters. */
const [maxName, maxText] = [100, 1000];

/** Shortens request text that a response echoes, for example an unknown field name. */
export const excerpt = (text: string): string =>
  text.length <= maxName ? text : `${text.slice(0, maxName).toWellFormed()}…`;

/** Records that prevent a delete because they refer to the record through this field. */
export interface RecordReferrers {
  readonly resource: string;
  readonly field: string;
  /** Number of records, counted up to a limit. */
  readonly count: number;
  /** Whether more records exist than `count`. */
  readonly isMore: boolean;
}

/** Additional properties of an error. */
interface ErrorExtra {
  /** Suggested fix. Part of the message. */
  readonly hint?: string;
  readonly fields?: readonly FieldIssue[];
  /** Number of entries omitted from `fields`. */
  readonly more?: number;
  /** ID of the conflicting record, as a decimal string. */
  readonly existingId?: string;
  /** The constraint or trigger function that rejected the write. */
  readonly constraint?: string;
  readonly referrers?: readonly RecordReferrers[];
  /** The missing grant, as `object:action`. */
  readonly grant?: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** Report on the work completed before the failure. */
  readonly report?: object;
}

/** An error response. Helpers throw it, and the error handler (engine/http/error-handling.ts) sends it. */
export class HttpError extends Error {
  override readonly name = 'HttpError';
  readonly status: number;
  readonly code: ErrorCode;
  /** The message without the hint. */
  readonly text: string;
  readonly extra: ErrorExtra;
  readonly [reasonKey]: ErrorReason | undefined;
  constructor(
    status: number,
    code: ErrorCode,
    text: string,
    extra: ErrorExtra = {},
    options: { readonly cause?: unknown; readonly reason?: ErrorReason | undefined } = {},
  ) {
    const { reason, ...others } = options;
    super(extra.hint === undefined ? text : `${text}. ${extra.hint}`, others);
    this[reasonKey] = reason;
    this.status = status;
    this.code = code;
    this.text = text;
    this.extra = limitedFields(extra, maxFields);
  }
}

/** An error's `fields`, and the number of entries omitted from them. */
interface FieldIssues {
  readonly fields?: readonly FieldIssue[] | undefined;
  readonly more?: number | undefined;
}

function limitedFields<T extends FieldIssues>(error: T, limit: number): T {
  const { fields = [], more = 0 } = error;
  if (fields.length <= limit) return error;
  const firstFields = fields.slice(0, limit);
  return {
    ...error,
    fields: firstFields.length === 0 ? undefined : firstFields,
    more: more + fields.length - firstFields.length,
  };
}

/** Returns a function that limits the total number of `fields` entries across all errors in a response. */
export function fieldLimiter(): <T extends FieldIssues>(error: T) => T {
  let remaining = maxResponseFields;
  return (error) => {
    const result = limitedFields(error, remaining);
    remaining -= result.fields?.length ?? 0;
    return result;
  };
}

/** Serializes an error as JSON. @param more additional properties */
export function errorJson(
  { message, code, extra }: Pick<HttpError, 'message' | 'code' | 'extra'>,
  more: Readonly<Record<string, unknown>>,
): string {
  const { fields, more: omitted, existingId, constraint, referrers, grant, report } = extra;
  const text = JSON.stringify({
    error: message,
    code,
    hint: hintOf(extra),
    fields,
    more: omitted,
    constraint,
    referrers: referrers?.map(({ resource, field, count, isMore }) => ({
      resource,
      field,
      count,
      ...(isMore && { more: true }),
    })),
    grant,
    report,
    ...more,
  });
  // Inserted as text, because an ID can exceed JavaScript's safe integer range.
  return existingId === undefined ? text : `${text.slice(0, -1)},"existing_id":${existingId}}`;
}

/** Path of the page that explains the error codes. Each code is an anchor. */
export const errorCodesPath = '/docs/error-codes';

/**
 * Returns the properties that problem details (RFC 9457) have in addition to the error's own. Consumers identify the
 * type of the problem by `type`, and this occurrence by `instance`.
 */
export const problemOf = ({ status, code, message }: HttpError, requestId: string) => ({
  type: `${errorCodesPath}#${code}`,
  title: errorCodes[code].replaceAll('`', ''),
  status,
  detail: message,
  instance: `urn:request-id:${requestId}`,
  request_id: requestId,
});

/** Returns the suggested fix of an error, or of its only issue. */
export const hintOf = ({ hint, fields = [] }: ErrorExtra): string | undefined =>
  hint ?? (fields.length === 1 ? fields[0]?.hint : undefined);

/** Returns the standard text of a status code, for example "bad request". */
const statusText = (status: number): string => (STATUS_CODES[status] ?? 'bad request').toLowerCase();

/** Formats a number for English messages and descriptions, with thousands separators. */
export const formatCount = (count: number): string => count.toLocaleString('en');

/** Returns a number with its noun, for example "1 record" or "2 records". */
export const pluralize = (count: number, noun: string): string => `${count} ${noun}${count === 1 ? '' : 's'}`;

/** Capitalizes the first letter. */
export const capitalize = (text: string): string => text.charAt(0).toUpperCase() + text.slice(1);

/** Returns the error details for field issues. */
const fieldsDetail = (fields: readonly FieldIssue[]) => ({ text: joinMessages(fields), fields });

/** Joins issue messages, up to the maximum length of a combined message. */
function joinMessages(fields: readonly FieldIssue[]): string {
  let text = '';
  for (const [index, { message }] of fields.entries()) {
    if (index > 0 && text.length + message.length > maxText)
      return `${text}; and ${fields.length - index} more`;
    // A message declared in a definition can end with a period.
    text = index === 0 ? message : `${text.replace(/\.$/, '')}; ${message}`;
  }
  return text;
}

/** Describes the records that refer to a record, for example "contacts.account_id (2)". */
function referrersText({ resource, field, count, isMore }: RecordReferrers): string {
  const name = `${resource}.${field}`;
  // The caller cannot see any of the records.
  if (count === 0) return name;
  return `${name} (${isMore ? 'more than ' : ''}${formatCount(count)})`;
}

/** Why a merge cannot be undone. */
export type MergeReason =
  | { readonly kind: 'notInTrash' | 'exists'; readonly id: string }
  | { readonly kind: 'tooOld'; readonly days: number }
  | { readonly kind: 'fieldsChanged'; readonly resource: string }
  | { readonly kind: 'notWritable' | 'missingReference' };

/** Returns the reason in an error message. */
function mergeReasonText(reason: MergeReason): string {
  switch (reason.kind) {
    case 'notInTrash':
      return `record ${reason.id} is not in the trash`;
    case 'exists':
      return `record ${reason.id} exists`;
    case 'tooOld':
      return `the records were not merged in the last ${reason.days} days`;
    case 'fieldsChanged':
      return `the fields of ${reason.resource} have changed since`;
    case 'notWritable':
      return 'it changed fields that you cannot write';
    case 'missingReference':
      return 'a record to which the other record refers no longer exists';
  }
}

/** What quotas limit, as in error messages. */
const quotaUnits = { records: 'records', megabytes: 'MB of records', customFields: 'custom fields' } as const;

/** Properties of an error that depend on its cause. */
interface ErrorDetail extends ErrorExtra {
  readonly status?: number;
  readonly text?: string;
  readonly cause?: unknown;
}

/** Definition of an error. The error's message is the text, followed by the hint as a second sentence. */
interface ErrorEntry {
  readonly status: number;
  /** Stable identifier for programs, in snake_case. Several errors can have the same code. */
  readonly code: string;
  /** Meaning of the code, for the API description. Only one of the entries that share a code has it. */
  readonly meaning?: string;
  /** Description of the problem. */
  readonly text?: string;
  /** Suggested fix. */
  readonly hint?: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** Returns the properties that depend on the cause. The error's constructor has the same parameters. */
  readonly detail?: (...args: never[]) => ErrorDetail;
}

const bearer = { 'www-authenticate': 'Bearer' };
const retryAfter = (seconds: number) => ({ 'retry-after': String(seconds) });
const closing = { connection: 'close' };

/**
 * All errors of the REST API. The API description lists their codes in this order. Codes are stable, but new
 * ones can be added.
 */
export const errorEntries = {
  rejectedRequest: {
    status: 400,
    code: 'invalid_request',
    meaning: 'The request is not valid HTTP, or the HTTP server rejected it.',
    detail: (status = 400) => ({ status, text: statusText(status) }),
  },
  /** The Host header is missing or repeated (RFC 9112, section 3.2). `count` is the number of Host headers. */
  hostRequired: {
    status: 400,
    code: 'invalid_request',
    headers: closing,
    detail: (count: number) =>
      count === 0
        ? { text: 'The Host header is missing' }
        : { text: 'Several Host headers were sent', hint: 'Send exactly one.' },
  },
  /** The client disconnected before its request was complete, so it will not receive this response. */
  incompleteRequest: { status: 400, code: 'invalid_request', text: 'The request is incomplete' },
  invalidJson: {
    status: 400,
    code: 'invalid_json',
    meaning: 'The body is empty, not valid JSON, not an object, or sent with another content type.',
    detail: (reason: string) => ({ text: `Invalid JSON body: ${reason}` }),
  },
  invalidCsv: {
    status: 400,
    code: 'invalid_csv',
    meaning: 'The body, or one of its lines, is not valid CSV in UTF-8.',
    detail: (reason: string) => ({ text: `Invalid CSV: ${reason}` }),
  },
  /** A line is longer than `limit` bytes. */
  lineTooLong: {
    status: 400,
    code: 'line_too_long',
    meaning: 'A line of the body is too long.',
    detail: (limit: number) => ({ text: `Line is longer than ${limit} bytes` }),
  },
  invalidFields: {
    status: 400,
    code: 'invalid_input',
    meaning: 'Fields or parameters are invalid; `fields` lists them.',
    detail: (fields: readonly FieldIssue[]) => fieldsDetail(fields),
  },
  /** A record violates a rule or a check that the database enforces. `message` applies to all the fields. */
  ruleViolated: {
    status: 400,
    code: 'invalid_input',
    detail: (fields: readonly string[], message: string, reason: IssueReason) => ({
      text: message,
      fields: fields.map((field) => ({ field, message, [reasonKey]: reason })),
    }),
  },
  /** A query parameter is invalid. */
  invalidParameter: {
    status: 400,
    code: 'invalid_input',
    detail: (field: string, message: string) => fieldsDetail([{ field, message: `${field} ${message}` }]),
  },
  /** Several batch items have the same values in unique fields. */
  duplicateInBatch: {
    status: 400,
    code: 'invalid_input',
    detail: (names: readonly string[]) =>
      fieldsDetail(
        names.map((field) => ({
          field,
          message: `several records in the batch have the same ${names.join(' and ')}`,
        })),
      ),
  },
  /** The body or a batch item is invalid as a whole. */
  invalidItem: { status: 400, code: 'invalid_input', detail: (text: string) => ({ text }) },
  /** A header is malformed. `message` follows the header name in the error text. */
  malformedHeader: {
    status: 400,
    code: 'invalid_header',
    meaning: 'A header is malformed or cannot be used here.',
    detail: (name: string, message: string) => ({ text: `${name} ${message}` }),
  },
  /** The properties of a resource's custom fields would be larger than `limit` bytes in total. */
  customFieldsTooLarge: {
    status: 400,
    code: 'invalid_input',
    hint: 'Shorten help texts or lists of values.',
    detail: (limit: number, resource: string) => ({
      text: `The custom field properties of ${resource}, including deleted fields, would exceed ${limit} bytes in total`,
    }),
  },
  /** A bulk change without filters would write every record. */
  filterRequired: {
    status: 400,
    code: 'invalid_input',
    text: 'A bulk change requires at least one filter',
    hint: "Add a filter of the resource's list, for example ?status=New.",
  },
  missingReferences: {
    status: 400,
    code: 'missing_reference',
    meaning:
      'References do not point to existing records or members of the organization; `fields` lists them.',
    detail: (fields: readonly FieldIssue[]) => fieldsDetail(fields),
  },
  /**
   * Another record has the same values in these unique fields. `existingId` is that record's ID, included
   * only if the caller can read the record.
   */
  duplicate: {
    status: 409,
    code: 'duplicate',
    meaning:
      'Another record in the organization has the same values in unique fields; `fields` lists the fields.',
    detail: (names: readonly string[], existingId?: string) => {
      const isSingle = names.length === 1;
      const text = `Another record has the same ${names.join(' and ')}`;
      return {
        text,
        fields: names.map((field) => ({
          field,
          message: isSingle ? text : `${field} has the same value, in combination with the other fields`,
          [reasonKey]: { kind: 'duplicate' as const, isCombination: !isSingle },
        })),
        ...(existingId !== undefined && { existingId }),
      };
    },
  },
  /** Several records have the phone number by which an item is matched, in different notations. */
  ambiguousMatch: {
    status: 409,
    code: 'duplicate',
    detail: (names: readonly string[]) => {
      const text = `Several records have the same ${names.join(' and ')} in different notations`;
      const hint =
        'Merge these records or change the phone number of all but one, then send the record again.';
      return { text, fields: names.map((field) => ({ field, message: text, hint })), hint };
    },
  },
  /** The organization already has a custom field with this name. It might be deleted. */
  customFieldExists: {
    status: 409,
    code: 'duplicate',
    detail: (name: string, isDeleted: boolean) => ({
      text: `The custom field "${name}" already exists`,
      hint: isDeleted ? 'It was deleted, and can be restored.' : 'Choose another name.',
    }),
  },
  /**
   * A field's value cannot change from its previous value. `previous` is undefined for a new record, and its value is
   * undefined if the field has none.
   */
  invalidTransition: {
    status: 409,
    code: 'invalid_transition',
    meaning:
      'A field cannot change from its current value to the new one; `fields` lists the allowed values.',
    detail: (
      field: string,
      previous: { readonly value: string | undefined } | undefined,
      value: string | undefined,
      allowed: readonly string[],
    ) => {
      const nameOf = (text: string | undefined) => (text === undefined ? 'no value' : `"${text}"`);
      const hint = allowed.length === 0 ? 'No other value is allowed' : `Allowed: ${allowed.join(', ')}`;
      const text =
        previous === undefined
          ? `${field} of a new record cannot be ${value === undefined ? 'empty' : nameOf(value)}`
          : `${field} cannot change from ${nameOf(previous.value)} to ${nameOf(value)}`;
      const reason: IssueReason = {
        ...{ kind: 'transition', value, allowed, isNew: previous === undefined },
        previous: previous?.value,
      };
      return fieldsDetail([{ field, message: `${text}. ${hint}`, hint, [reasonKey]: reason }]);
    },
  },
  /** A write to a locked record. `message` is the reason from the definition. */
  locked: {
    status: 409,
    code: 'locked',
    meaning: 'The record cannot be changed in its current state, and neither can its children.',
    detail: (singular: string, message?: string) => ({
      text: message ?? `This ${singular.replaceAll('_', ' ')} is locked and cannot be changed`,
    }),
  },
  rejectedByDatabase: {
    status: 400,
    code: 'rejected_by_database',
    meaning:
      'A constraint or trigger added to the database by the operator rejected the record; `constraint` names it.',
    detail: (constraint: string, cause?: unknown) => ({
      text: `The database rejected the record: ${constraint}`,
      constraint,
      cause,
    }),
  },
  /** Batch items are invalid, so nothing was written. `items` maps locations like `records[2]` to errors. */
  itemsRejected: {
    status: 400,
    code: 'items_refused',
    meaning:
      'Records in a batch are invalid, so nothing was written; `fields` lists them by index, or by ID in bulk changes.',
    detail: (items: ReadonlyMap<string, HttpError>, cause?: unknown) => {
      const fields = [...items].flatMap(
        ([location, { message, extra }]) =>
          extra.fields?.map((issue) => ({
            field: `${location}.${issue.field}`,
            message: `${location}: ${issue.message}`,
          })) ?? [{ field: location, message: `${location}: ${message}` }],
      );
      const more = [...items.values()].reduce((sum, { extra }) => sum + (extra.more ?? 0), 0);
      const [first] = fields;
      return {
        text:
          items.size === 1
            ? `1 record is invalid: ${first?.message}`
            : `${items.size} records are invalid. First: ${first?.message}`,
        fields,
        ...(more > 0 && { more }),
        cause,
      };
    },
  },
  organizationRequired: {
    status: 400,
    code: 'organization_required',
    meaning: 'The caller belongs to several organizations and must choose one with `?org=`.',
    detail: () =>
      fieldsDetail([
        { field: 'org', message: 'org is required because you belong to several organizations' },
      ]),
  },
  /** A module's hook or action rejected the request for a reason that does not concern one field. */
  rejectedByModule: {
    status: 400,
    code: 'rejected_by_module',
    meaning: 'A module of the instance rejected the request.',
    text: '',
    detail: (text: string, hint: string | undefined) => ({ text, ...(hint !== undefined && { hint }) }),
  },
  /** The input of a job that had not ended was erased, because it contained a person's data. */
  jobInputErased: {
    status: 400,
    code: 'rejected_by_module',
    text: 'The input of the job was erased',
  },
  /** The credentials are missing, unknown, expired or revoked. The text does not reveal which. */
  unauthenticated: {
    status: 401,
    code: 'unauthenticated',
    meaning: 'Credentials are missing, wrong, expired or revoked.',
    text: 'Missing or invalid credentials',
    headers: bearer,
  },
  /** The Authorization header does not start with `Bearer`. The key is not verified. */
  bearerNeeded: {
    status: 401,
    code: 'unauthenticated',
    text: 'Send the key as "Authorization: Bearer <key>"',
    headers: bearer,
  },
  /** A password login failed. The text does not reveal why. */
  /** `metadata` is the URL of the resource's metadata (RFC 9728, section 5.1). */
  authorizationNeeded: {
    status: 401,
    code: 'unauthenticated',
    text: 'The API key or access token is missing or invalid',
    detail: (metadata: string) => ({
      headers: { 'www-authenticate': `Bearer resource_metadata="${metadata}"` },
    }),
  },
  wrongPassword: { status: 401, code: 'unauthenticated', text: 'Wrong email or password', headers: bearer },
  secondFactorRequired: {
    status: 401,
    code: 'second_factor_required',
    meaning: 'The password is correct, but `otp` is missing, wrong or already used.',
    text: 'This user has a second factor',
    hint: 'Send its code as "otp".',
    headers: bearer,
  },
  /** The password is correct, but the second factor is wrong. */
  wrongSecondFactor: {
    status: 401,
    code: 'second_factor_required',
    text: 'otp is wrong or has already been used',
    headers: bearer,
  },
  secondFactorMissing: {
    status: 401,
    code: 'second_factor_missing',
    meaning: 'The instance requires a second factor, and the user has to set one up in a browser.',
    text: 'This instance requires a second factor',
    hint: 'Log in at /setup in a browser and set one up.',
    headers: bearer,
  },
  forbidden: {
    status: 403,
    code: 'forbidden',
    meaning:
      "The profile does not grant the action, and `grant` names the missing grant; or a channel's verify token is wrong.",
    detail: (object: string, action: string) => ({
      text: `Your profile does not grant ${action} on ${object}`,
      hint: `An administrator can add the grant ${object}:${action}.`,
      grant: `${object}:${action}`,
    }),
  },
  /** The key can propose the action, but not perform it. */
  onlyProposes: {
    status: 403,
    code: 'forbidden',
    hint: 'Propose it with the tools of POST /mcp. A person decides in the admin UI.',
    detail: (object: string, action: string) => ({
      text: `This key can only propose writes, so it cannot perform ${action} on ${object}`,
    }),
  },
  /** The written record would be outside the scopes to which the caller's grants limit the action. */
  outsideScope: {
    status: 403,
    code: 'outside_scope',
    meaning: 'The written record would be outside the scopes of your grants. Nothing was written.',
    detail: (object: string, action: string) => ({
      text: `The record would be outside the scope in which your profile grants ${action} on ${object}`,
      hint: `Writing this record requires the grant ${object}:${action}.`,
      grant: `${object}:${action}`,
    }),
  },
  /** The caller is not allowed to continue, for a reason other than missing grants. */
  notPermitted: {
    status: 403,
    code: 'forbidden',
    detail: (text: string, grant?: string) => ({ text, ...(grant !== undefined && { grant }) }),
  },
  /** The organization has reached one of its limits. `resource` is the resource with the custom fields. */
  quotaExceeded: {
    status: 403,
    code: 'quota_exceeded',
    meaning: "The organization has reached a limit set by the instance's operator.",
    hint: "Delete some, or ask this instance's operator for a higher limit.",
    detail: (limit: number, unit: keyof typeof quotaUnits, resource?: string) => ({
      text: `The organization has reached its limit of ${limit} ${quotaUnits[unit]}${resource === undefined ? '' : ` of ${resource}, including deleted ones`}`,
    }),
  },
  /** The caller is not a member, or the organization does not exist. The text does not reveal which. */
  notAMember: {
    status: 403,
    code: 'not_a_member',
    meaning: 'The caller is not a member of the organization, or the organization does not exist.',
    text: 'You are not a member of this organization',
  },
  crossSite: {
    status: 403,
    code: 'cross_site',
    meaning: 'A write with a session cookie came from another origin.',
    text: 'Writes with a session cookie are only allowed from pages of this origin',
  },
  notFound: {
    status: 404,
    code: 'not_found',
    meaning: 'The record does not exist in the organization, or the path does not exist.',
    text: 'Not found',
  },
  /** The path does not exist. `details` follows the text and starts with punctuation. */
  pathNotFound: {
    status: 404,
    code: 'not_found',
    detail: (details: string, hint?: string) => ({
      text: `Path not found${details}`,
      ...(hint !== undefined && { hint }),
    }),
  },
  /** The record does not exist, belongs to another organization, or has an invalid ID. */
  recordNotFound: {
    status: 404,
    code: 'not_found',
    detail: (singular: string, hint?: string) => ({
      text: `${capitalize(singular.replaceAll('_', ' '))} not found in your organization`,
      ...(hint !== undefined && { hint }),
    }),
  },
  /** The path does not support the method. `allow` lists the supported methods. */
  methodNotAllowed: {
    status: 405,
    code: 'method_not_allowed',
    meaning: 'The path does not support the method.',
    text: 'Method not allowed',
    detail: (allow: string) => ({ hint: `Allowed methods: ${allow}`, headers: { allow } }),
  },
  requestTimeout: {
    status: 408,
    code: 'request_timeout',
    meaning: 'The request was sent too slowly.',
    text: 'The request was sent too slowly',
    headers: closing,
  },
  /** The request headers arrived too slowly. */
  headTimeout: { status: 408, code: 'request_timeout', text: 'request timeout' },
  stillRunning: {
    status: 409,
    code: 'in_progress',
    meaning: 'The first request with this `Idempotency-Key` is still running.',
    text: 'The first request with this Idempotency-Key is still running',
    headers: retryAfter(1),
  },
  /** Other records refer to the record, or to records that would be deleted with it. */
  referenced: {
    status: 409,
    code: 'referenced',
    meaning:
      'The record was not deleted because other records refer to it, or to records that would be deleted with it; `referrers` counts them.',
    hint: 'Delete these records or change their references first.',
    detail: (singular: string, referrers: readonly RecordReferrers[]) => ({
      text: `This ${singular.replaceAll('_', ' ')} cannot be deleted because other records refer to it: ${referrers.map(referrersText).join(', ')}`,
      referrers,
    }),
  },
  /** The delete would remove more than `limit` records. */
  cascadeTooLarge: {
    status: 409,
    code: 'cascade_too_large',
    meaning: 'The delete would remove too many records, so nothing was deleted.',
    hint: 'Delete some of the records that depend on it first.',
    detail: (limit: number) => ({
      text: `The delete would remove more than ${formatCount(limit)} records`,
    }),
  },
  /** The merge would move more than `limit` references. */
  mergeTooLarge: {
    status: 409,
    code: 'merge_too_large',
    meaning: 'The merge would move too many references, so nothing was merged.',
    hint: 'Move some of the references first.',
    detail: (limit: number) => ({
      text: `More than ${formatCount(limit)} records refer to the other record`,
    }),
  },
  /** Records that refer to both records would have the same values in unique fields. `names` is empty if they are hidden. */
  mergeConflict: {
    status: 409,
    code: 'merge_conflict',
    meaning:
      'Records that refer to the two records would have the same values in unique fields, so nothing was merged.',
    hint: 'Delete or change one of these records first.',
    detail: (resource: string, names: readonly string[]) => ({
      text: `Several ${resource} would have the same ${names.length === 0 ? 'unique values' : names.join(' and ')}`,
    }),
  },
  /** The merge of two records cannot be undone. */
  mergeNotUndoable: {
    status: 409,
    code: 'merge_not_undoable',
    meaning: 'The merge cannot be undone, for example because the records were merged too long ago.',
    detail: (reason: MergeReason) => ({ text: `The merge cannot be undone: ${mergeReasonText(reason)}` }),
  },
  /** More than `limit` records match the filters of a bulk change. */
  bulkTooLarge: {
    status: 409,
    code: 'bulk_too_large',
    meaning: 'Too many records match the filters, so nothing can be written.',
    hint: 'Add filters.',
    detail: (limit: number) => ({
      text: `More than ${formatCount(limit)} records match the filters`,
    }),
  },
  countChanged: {
    status: 409,
    code: 'count_changed',
    meaning:
      'The number of records that match the filters has changed since `confirm` was issued, so nothing was written.',
    text: 'The number of records that match the filters has changed',
    hint: 'Send the request without confirm to get the current number.',
  },
  cursorExpired: {
    status: 410,
    code: 'cursor_expired',
    meaning:
      'The change feed cursor is older than the retained changes, or was issued before the database was restored.',
    text: 'Changes after this cursor may have been deleted',
    hint: 'Get a new cursor with after=now, read all records again, and then continue with the changes after the new cursor.',
  },
  preconditionFailed: {
    status: 412,
    code: 'precondition_failed',
    meaning: 'The record does not satisfy `If-Match` or `If-None-Match`.',
    text: 'The record has changed since it was read',
  },
  /** The body is larger than `limit` bytes. */
  tooLarge: {
    status: 413,
    code: 'body_too_large',
    meaning: "The body exceeds the path's size limit.",
    detail: (limit: number) => ({ text: `The request body is larger than ${limit} bytes` }),
  },
  expectationFailed: {
    status: 417,
    code: 'expectation_failed',
    meaning: 'The server does not support the expectation in `Expect`.',
    text: 'the expectation cannot be met',
  },
  keyReused: {
    status: 422,
    code: 'idempotency_key_reused',
    meaning: 'The `Idempotency-Key` was already used with a different body.',
    text: 'This Idempotency-Key was already used with a different body',
  },
  /** Too many attempts have failed. `seconds` is the time to wait before retrying. */
  tooManyAttempts: {
    status: 429,
    code: 'too_many_attempts',
    meaning: 'Too many wrong passwords or secrets.',
    text: 'Too many attempts',
    hint: 'Try again later.',
    detail: (seconds: number) => ({ headers: retryAfter(seconds) }),
  },
  /** The caller has exceeded the rate limit. `seconds` is the time to wait before retrying. */
  rateLimited: {
    status: 429,
    code: 'rate_limited',
    meaning: "The key or user has exceeded the instance's rate limit.",
    text: 'Too many requests',
    hint: 'Try again later.',
    detail: (seconds: number) => ({ headers: retryAfter(seconds) }),
  },
  /** The key of an agent has reached its limit for the day. `end` is when the limit ends. */
  agentLimitReached: {
    status: 429,
    code: 'rate_limited',
    detail: (access: 'read' | 'write', limit: number, end: Date) => ({
      text: `This key has ${access === 'read' ? 'read' : 'written'} ${limit} records with tools today (UTC), which is its limit`,
      hint: `Stop, and continue after ${end.toISOString()}. The instance's operator can raise mcp.limits.${access} in config.yaml.`,
      headers: retryAfter(Math.max(1, Math.ceil((end.getTime() - Date.now()) / 1000))),
    }),
  },
  /** Too many jobs of the organization are queued. `limit` is their maximum number. */
  tooManyJobs: {
    status: 429,
    code: 'too_many_jobs',
    meaning: 'Too many jobs of the organization are waiting.',
    hint: 'Wait until some of them have finished, or cancel them.',
    headers: retryAfter(30),
    detail: (limit: number) => ({ text: `${limit} jobs of the organization are already waiting` }),
  },
  headTooLarge: {
    status: 431,
    code: 'head_too_large',
    meaning: 'The request headers are too large.',
    text: 'request header fields too large',
  },
  internal: {
    status: 500,
    code: 'internal',
    meaning: 'Internal server error.',
    text: 'the server failed',
    detail: (cause: unknown) => ({ cause }),
  },
  /** The process that ran an import in the background stopped or was killed. `lines` were certainly processed. */
  importInterrupted: {
    status: 500,
    code: 'internal',
    detail: (lines: number) => ({
      text:
        lines === 0
          ? 'The import was interrupted'
          : `The import was interrupted after at least ${pluralize(lines, 'line')}`,
      hint: 'Records that it has already created or updated are kept. Check the list before you import the rest of the file.',
    }),
  },
  /** An import in the background took longer than this number of minutes. */
  importTooSlow: {
    status: 500,
    code: 'internal',
    detail: (minutes: number) => ({
      text: `The import took longer than ${pluralize(minutes, 'minute')}`,
      hint: 'Records that it has already created or updated are kept.',
    }),
  },
  /** A module's hook or action failed. `place` names it, and `reason` explains the failure without details. */
  moduleFailed: {
    status: 500,
    code: 'module_failed',
    meaning: "A module's code failed. Nothing was written.",
    text: '',
    detail: (module: string, place: string, reason: string, cause?: unknown) => ({
      text: `The module ${module} failed in ${place}: ${reason}`,
      cause: cause ?? new Error(`the module ${module} failed in ${place}: ${reason}`),
    }),
  },
  database: {
    status: 500,
    code: 'database_failed',
    meaning: 'The database failed or cannot be reached.',
    text: 'The database did not respond as expected',
    headers: retryAfter(5),
    detail: (cause: unknown) => ({ cause }),
  },
  notConfigured: {
    status: 501,
    code: 'not_configured',
    meaning: 'The endpoint has no secret on this instance.',
    text: 'This endpoint is not configured on this instance',
  },
  notRecorded: {
    status: 501,
    code: 'not_recorded',
    meaning: 'The instance does not record changes.',
    text: 'This instance does not record changes',
  },
  sendFailed: {
    status: 502,
    code: 'send_failed',
    meaning: 'The message could not be sent.',
    text: 'the message was not sent',
    detail: (cause: unknown) => ({ cause }),
  },
  overloaded: {
    status: 503,
    code: 'overloaded',
    meaning: 'Too many requests or events are already waiting.',
    text: 'The server is busy',
    hint: 'Try again.',
    headers: retryAfter(1),
  },
  /** The instance has reached its connection limit. */
  tooManyConnections: {
    status: 503,
    code: 'overloaded',
    text: 'Too many connections',
    hint: 'Try again.',
    headers: { ...retryAfter(1), ...closing },
  },
  /** Too many of the organization's events are waiting in the inbox. Providers will retry. */
  inboxFull: {
    status: 503,
    code: 'overloaded',
    text: 'Too many events are waiting to be processed',
    hint: 'Try again later.',
    headers: retryAfter(60),
  },
  tooSlow: {
    status: 503,
    code: 'too_slow',
    meaning: 'The statement exceeded its time limit or waited too long for a lock, and was canceled.',
    text: 'The request took too long',
    headers: retryAfter(5),
    detail: (cause: unknown) => ({ cause }),
  },
  draining: {
    status: 503,
    code: 'shutting_down',
    meaning: 'The process is shutting down.',
    text: 'The server is shutting down',
    headers: { ...retryAfter(1), ...closing },
  },
  readOnly: {
    status: 503,
    code: 'read_only',
    meaning: 'The instance is read-only during maintenance.',
    text: 'The service is read-only during maintenance',
    hint: 'Try again later.',
    headers: retryAfter(60),
  },
} as const satisfies Readonly<Record<string, ErrorEntry>>;

type Entries = typeof errorEntries;

/** The code of an error. */
export type ErrorCode = Entries[keyof Entries]['code'];

/** The meaning of each error code. */
export const errorCodes = Object.fromEntries(
  Object.values<ErrorEntry>(errorEntries).flatMap(({ code, meaning }) =>
    meaning === undefined ? [] : [[code, meaning]],
  ),
) as Readonly<Record<ErrorCode, string>>;

/** The parameters of an error's constructor. */
type Causes<Entry> = Entry extends { readonly detail: (...args: infer Args) => ErrorDetail } ? Args : [];

/** Constructors for the errors of the REST API, one per entry. */
export const errors = Object.fromEntries(
  Object.entries<ErrorEntry>(errorEntries).map(([name, entry]) => [
    name,
    (...args: never[]) => createError(name as keyof Entries, entry, args),
  ]),
) as { readonly [Name in keyof Entries]: (...args: Causes<Entries[Name]>) => HttpError };

/** The name of an error's entry, and the arguments of its constructor. The pages of the admin UI translate it. */
export type ErrorReason<Name extends keyof Entries = keyof Entries> = {
  readonly [Key in Name]: { readonly name: Key; readonly args: ErrorArguments[Key] };
}[Name];

/** The arguments of each error's constructor, by the name of its entry. */
export type ErrorArguments = { readonly [Name in keyof Entries]: Causes<Entries[Name]> };

function createError(name: keyof Entries, { detail, ...entry }: ErrorEntry, args: never[]): HttpError {
  const { status, code, meaning: _, text = '', cause, ...extra } = { ...entry, ...detail?.(...args) };
  const reason = { name, args } as ErrorReason;
  return new HttpError(status, code as ErrorCode, text, extra, {
    ...(cause !== undefined && { cause }),
    reason,
  });
}

/**
 * An error in the configuration, a definition or a command, which the user can fix. Printed without a stack
 * trace.
 */
export class UserError extends Error {
  override readonly name = 'UserError';
}

const fileReasons: Readonly<Record<string, string>> = {
  EACCES: 'permission denied',
  EEXIST: 'it already exists',
  EISDIR: 'it is a folder',
  ELOOP: 'it contains a symbolic link loop',
  ENOENT: 'it does not exist',
  ENOSPC: 'no space is left on the device',
  ENOTDIR: 'a component of its path is not a folder',
  EPERM: 'permission denied',
  EROFS: 'it is on a read-only file system',
};

/** Explains why a file or folder cannot be used. */
export function fileReason(cause: unknown): string {
  const { code, message, path } = cause as NodeJS.ErrnoException;
  if (code === 'ENOTDIR' && path !== undefined && existsSync(path)) return 'it is a file, not a folder';
  return fileReasons[code ?? ''] ?? code ?? message;
}
