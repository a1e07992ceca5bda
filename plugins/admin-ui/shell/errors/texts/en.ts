import type { Catalogue } from '../../catalogue.ts';

/**
 * English texts of errors. Pages in English show the errors' own messages instead. A text about a value completes
 * "<field> …".
 */
export default {
  // Values
  required: 'is required',
  characters: 'must not contain U+0000 or lone surrogates',
  invalid: 'is invalid',
  min: 'must be at least {limit}',
  max: 'must be at most {limit}',
  minLength: {
    one: 'must be at least {count} character long',
    other: 'must be at least {count} characters long',
  },
  maxLength: {
    one: 'must be at most {count} character long',
    other: 'must be at most {count} characters long',
  },
  maxItems: { one: 'must contain at most {count} value', other: 'must contain at most {count} values' },
  pattern: 'must match {pattern}',
  closed: 'must be one of {values}',
  boolean: 'must be true or false',
  country: 'must be an ISO 3166 country code, for example DE',
  currency: 'must be an ISO 4217 currency code, for example EUR',
  customValues: 'must be an object with the values of custom fields',
  date: 'must be a date, such as 2026-03-01',
  document: 'must be a JSON object or array of at most 64 KiB',
  email: 'must be an email address',
  timeZone: 'must be an IANA time zone, for example Europe/Berlin',
  iban: 'must be a valid IBAN',
  wholeNumber: 'must be a 64-bit integer',
  integer: 'must be an integer from {min} to {max}',
  list: 'must be a list of strings of at most 500 characters',
  member: 'must be the id of a member (an integer) or null',
  money: 'must be an amount such as 12.5 {currency}',
  number: 'must be a number',
  phone: 'must be a phone number',
  record: 'must be the id of a record (an integer)',
  recordOf: 'must be a record of {resources}',
  references: 'must be a list of at most {max} record ids (integers)',
  string: 'must be a string',
  textUpTo: 'must be a string of at most {max} characters',
  timestamp: 'must be an RFC 3339 timestamp, such as 2026-03-01T09:30:00+01:00',
  url: 'must be a URL that starts with http:// or https://',
  missingRecord: '{id} does not exist',
  notMember: 'is not a member of this organization',
  duplicate: 'has the same value in another record',
  duplicateCombination: 'has the same value, in combination with the other fields',
  transition: 'cannot change from "{previous}" to "{value}"',
  transitionFromNone: 'cannot change from no value to "{value}"',
  transitionToNone: 'cannot change from "{previous}" to no value',
  newValue: 'of a new record cannot be "{value}"',
  newWithoutValue: 'of a new record must have a value',
  allowed: 'Allowed: {values}.',
  noneAllowed: 'No other value is allowed.',
  // Errors of the API
  invalidRequest: 'The request is invalid.',
  failed: 'Something went wrong. Try again later.',
  about: '{field}: {message}',
  moreIssues: 'There are {count} more errors.',
  recordsRejected: {
    one: '1 record was rejected: {message}',
    other: '{count} records were rejected, the first one for this reason: {message}',
  },
  invalidCsv: 'The file is not valid CSV in UTF-8.',
  lineTooLong: 'Line is longer than {limit} bytes.',
  customFieldExists: 'The custom field "{name}" already exists. Choose another name.',
  customFieldDeleted: 'The custom field "{name}" already exists. It was deleted, and can be restored.',
  customFieldsTooLarge:
    'The custom field properties of {resource}, including deleted fields, would exceed {limit} bytes in total. Shorten help texts or lists of values.',
  ambiguousMatch:
    'Several records have the same {fields} in different notations. Merge these records or change the phone number of all but one, then send the record again.',
  duplicateInFile: 'Several records in the batch have the same {fields}.',
  locked: 'This record is locked and cannot be changed.',
  rejectedByDatabase: 'The database rejected the record: {constraint}.',
  forbidden: 'Your profile does not grant {action} on {object}.',
  outsideScope:
    'The record would be outside the scope in which your profile grants {action} on {object}. Writing this record requires the grant {object}:{action}.',
  notPermitted: 'You are not allowed to do this.',
  recordQuota:
    "The organization has reached its limit of {limit} records. Delete some, or ask this instance's operator for a higher limit.",
  storageQuota:
    "The organization has reached its limit of {limit} MB of records. Delete some, or ask this instance's operator for a higher limit.",
  customFieldQuota:
    "The organization has reached its limit of {limit} custom fields of {resource}, including deleted ones. Delete some, or ask this instance's operator for a higher limit.",
  notAMember: 'You are not a member of this organization.',
  expiredForm: 'This form has expired or was sent from another site. Go back, reload the page and try again.',
  pageNotFound: 'Page not found.',
  recordNotFound: 'This record does not exist in your organization.',
  methodNotAllowed: 'Method not allowed.',
  tooSlowRequest: 'The request was sent too slowly.',
  stillRunning: 'The first request with this form is still running.',
  referenced:
    'This record cannot be deleted because other records refer to it. Delete these records or change their references first.',
  cascadeTooLarge:
    'The delete would remove more than {count} records. Delete some of the records that depend on it first.',
  mergeTooLarge: 'More than {count} records refer to the other record. Move some of the references first.',
  mergeConflict:
    'Several {resource} would have the same unique values. Delete or change one of these records first.',
  mergeConflictIn:
    'Several {resource} would have the same {fields}. Delete or change one of these records first.',
  mergeNotUndoable: 'The merge cannot be undone: {reason}.',
  recordNotInTrash: 'record {id} is not in the trash',
  recordExists: 'record {id} exists',
  mergeTooOld: 'the records were not merged in the last {days} days',
  fieldsChanged: 'the fields of {resource} have changed since',
  fieldsNotWritable: 'it changed fields that you cannot write',
  referenceMissing: 'a record to which the other record refers no longer exists',
  bulkTooLarge: 'More than {count} records match the filters. Add filters.',
  countChanged: 'The number of records that match the filters has changed.',
  changed: 'The record has changed since it was read.',
  formTooLarge: 'The form is too large.',
  tooManyAttempts: 'Too many attempts. Try again later.',
  rateLimited: 'Too many requests. Try again later.',
  tooManyJobs:
    '{limit} jobs of the organization are already waiting. Wait until some of them have finished, or cancel them.',
  jobInputErased: 'The input of the job was erased.',
  importInterrupted: {
    one: 'The import was interrupted after at least {count} line. Records that it has already created or updated are kept. Check the list before you import the rest of the file.',
    other:
      'The import was interrupted after at least {count} lines. Records that it has already created or updated are kept. Check the list before you import the rest of the file.',
  },
  importInterruptedAtStart:
    'The import was interrupted. Records that it has already created or updated are kept. Check the list before you import the rest of the file.',
  importTooSlow:
    'The import took longer than {minutes} minutes. Records that it has already created or updated are kept.',
  database: 'The database did not respond as expected.',
  overloaded: 'The server is busy. Try again.',
  tooSlow: 'The request took too long.',
  shuttingDown: 'The server is shutting down.',
  readOnly: 'The service is read-only during maintenance. Try again later.',
  // Names, users and passwords
  nameLength: 'the name must have 1 to {max} characters',
  nameCharacters:
    'the name must not contain line breaks, control characters or characters that change the text direction (found {character})',
  passwordLength: 'the password must have {min} to {max} characters',
  passwordLikeUser: 'the password must not be the user’s email address or name',
  passwordTooCommon: 'this password is too common. Choose another.',
  invalidEmail: 'this is not a valid email address',
  userExists: 'a user with the email address {email} already exists',
  userJustAdded: '{email} was just added by another request. Try again.',
  alreadyMember: '{email} is already a member of this organization',
  unusableLink: 'this link cannot be used: the code is wrong, it has expired, or it has already been used',
  memberMissing: 'this member does not exist',
  verifiedUser:
    'administrators cannot reset the password of a verified user. The user can use "Forgot your password?" or ask the operator of this instance.',
  userDisabled: 'this user is disabled',
  // Titles of error pages
  badRequest: 'Bad Request',
  forbiddenTitle: 'Forbidden',
  notFoundTitle: 'Not Found',
  conflict: 'Conflict',
  payloadTooLarge: 'Payload Too Large',
  tooManyRequests: 'Too Many Requests',
  internalError: 'Internal Server Error',
  unavailable: 'Service Unavailable',
} as const satisfies Catalogue;
