import {
  type ErrorArguments,
  type ErrorReason,
  type FieldIssue,
  HttpError,
  type MergeReason,
  reasonKey,
  type UserError,
} from '../../../../engine/errors.ts';
import { NameError } from '../../../../engine/tables/index.ts';
import { IdentityError } from '../../../access/identity/index.ts';
import { joinTexts, type Language, ownWords, type Text } from '../catalogue.ts';
import { ForbiddenError, TranslatedError } from '../translated-error.ts';
import { issueMessageIn } from './issue-message.ts';
import { type ErrorsText, errorsTexts } from './texts/index.ts';

type ErrorName = keyof ErrorArguments;

/** Messages of errors by name. */
type Messages = {
  readonly [Name in ErrorName]?: (t: ErrorsText, ...args: ErrorArguments[Name]) => Text;
};

/** Returns why a merge cannot be undone. */
function mergeReason(t: ErrorsText, reason: MergeReason): Text {
  switch (reason.kind) {
    case 'notInTrash':
      return t('recordNotInTrash', { id: reason.id });
    case 'exists':
      return t('recordExists', { id: reason.id });
    case 'tooOld':
      return t('mergeTooOld', { days: String(reason.days) });
    case 'fieldsChanged':
      return t('fieldsChanged', { resource: reason.resource });
    case 'notWritable':
      return t('fieldsNotWritable');
    case 'missingReference':
      return t('referenceMissing');
  }
}

/**
 * The messages of the API's errors that can appear on a page, by name. An error about fields has the messages of its issues, and all
 * other errors have a message that depends on their status.
 */
const messages: Messages = {
  invalidCsv: (t) => t('invalidCsv'),
  lineTooLong: (t, limit) => t('lineTooLong', { limit: String(limit) }),
  customFieldExists: (t, name, isDeleted) =>
    isDeleted ? t('customFieldDeleted', { name }) : t('customFieldExists', { name }),
  customFieldsTooLarge: (t, limit, resource) => t('customFieldsTooLarge', { limit: String(limit), resource }),
  ambiguousMatch: (t, names) => t('ambiguousMatch', { fields: names.join(', ') }),
  duplicateInBatch: (t, names) => t('duplicateInFile', { fields: names.join(', ') }),
  locked: (t, _, message) => (message === undefined ? t('locked') : ownWords(message)),
  rejectedByDatabase: (t, constraint) => t('rejectedByDatabase', { constraint }),
  rejectedByModule: (_, text, hint) => ownWords(hint === undefined ? text : `${text}. ${hint}`),
  forbidden: (t, object, action) => t('forbidden', { object, action }),
  outsideScope: (t, object, action) => t('outsideScope', { object, action }),
  notPermitted: (t) => t('notPermitted'),
  quotaExceeded: (t, limit, unit, resource = '') => {
    if (unit === 'records') return t('recordQuota', { limit: String(limit) });
    if (unit === 'megabytes') return t('storageQuota', { limit: String(limit) });
    return t('customFieldQuota', { limit: String(limit), resource });
  },
  notAMember: (t) => t('notAMember'),
  crossSite: (t) => t('expiredForm'),
  notFound: (t) => t('pageNotFound'),
  pathNotFound: (t) => t('pageNotFound'),
  recordNotFound: (t) => t('recordNotFound'),
  methodNotAllowed: (t) => t('methodNotAllowed'),
  requestTimeout: (t) => t('tooSlowRequest'),
  stillRunning: (t) => t('stillRunning'),
  referenced: (t) => t('referenced'),
  cascadeTooLarge: (t, count) => t('cascadeTooLarge', { count }),
  mergeTooLarge: (t, count) => t('mergeTooLarge', { count }),
  mergeConflict: (t, resource, names) =>
    names.length === 0
      ? t('mergeConflict', { resource })
      : t('mergeConflictIn', { resource, fields: names.join(', ') }),
  mergeNotUndoable: (t, reason) => t('mergeNotUndoable', { reason: mergeReason(t, reason) }),
  bulkTooLarge: (t, count) => t('bulkTooLarge', { count }),
  countChanged: (t) => t('countChanged'),
  preconditionFailed: (t) => t('changed'),
  tooLarge: (t) => t('formTooLarge'),
  tooManyAttempts: (t) => t('tooManyAttempts'),
  rateLimited: (t) => t('rateLimited'),
  tooManyJobs: (t, limit) => t('tooManyJobs', { limit: String(limit) }),
  jobInputErased: (t) => t('jobInputErased'),
  importInterrupted: (t, count) =>
    count === 0 ? t('importInterruptedAtStart') : t('importInterrupted', { count }),
  importTooSlow: (t, minutes) => t('importTooSlow', { minutes: String(minutes) }),
  database: (t) => t('database'),
  overloaded: (t) => t('overloaded'),
  tooManyConnections: (t) => t('overloaded'),
  tooSlow: (t) => t('tooSlow'),
  draining: (t) => t('shuttingDown'),
  readOnly: (t) => t('readOnly'),
};

/** Returns the message for an error of the API, or undefined if it has none of its own. */
function ownMessage<Name extends ErrorName>(
  t: ErrorsText,
  { name, args }: ErrorReason<Name>,
): Text | undefined {
  const message: Messages[Name] = messages[name];
  return message?.(t, ...args);
}

/** Returns the messages of issues, each after the name of its field. */
function issuesText(t: ErrorsText, language: Language, fields: readonly FieldIssue[], more = 0): Text {
  const parts = fields.map((issue) => {
    const message = issueMessageIn(issue, language);
    return issue[reasonKey]?.kind === 'message' ? message : t('about', { field: issue.field, message });
  });
  return joinTexts([...parts, ...(more > 0 ? [t('moreIssues', { count: more })] : [])]);
}

/** Returns how many records of a change were rejected, and why the first one was. */
function itemsText(t: ErrorsText, language: Language, items: ReadonlyMap<string, HttpError>): Text {
  const [first] = items.values();
  const message = first === undefined ? t('invalidRequest') : messageIn(first, language);
  return t('recordsRejected', { count: items.size, message });
}

/** The properties of an API error that determine its message. A line of an import's report has the same properties. */
type ApiError = {
  readonly message: string;
  readonly [reasonKey]?: ErrorReason | undefined;
  readonly status?: number;
  readonly fields?: readonly FieldIssue[] | undefined;
  readonly more?: number | undefined;
};

/** Returns the message of an error of the API in a language. */
export function apiMessageIn(error: ApiError, language: Language): Text {
  const { message, status = 400, fields = [], more, [reasonKey]: reason } = error;
  if (language === 'en') return ownWords(message);
  const t = errorsTexts(language);
  if (reason?.name === 'itemsRejected') return itemsText(t, language, reason.args[0]);
  const text = reason && ownMessage(t, reason);
  if (text !== undefined) return text;
  if (fields.length > 0) return issuesText(t, language, fields, more);
  return status >= 500 ? t('failed') : t('invalidRequest');
}

/** Returns the message of an error of users and passwords. */
function identityMessage(t: ErrorsText, { reason }: IdentityError): Text {
  switch (reason.kind) {
    case 'passwordLength':
      return t('passwordLength', { min: String(reason.min), max: String(reason.max) });
    case 'passwordLikeUser':
      return t('passwordLikeUser');
    case 'passwordTooCommon':
      return t('passwordTooCommon');
    case 'invalidEmail':
      return t('invalidEmail');
    case 'userExists':
      return t('userExists', { email: reason.email });
    case 'userJustAdded':
      return t('userJustAdded', { email: reason.email });
    case 'alreadyMember':
      return t('alreadyMember', { email: reason.email });
    case 'unusableLink':
      return t('unusableLink');
    case 'memberMissing':
      return t('memberMissing');
    case 'verifiedUser':
      return t('verifiedUser');
    case 'userDisabled':
      return t('userDisabled');
  }
}

/** Returns the message of an error about a name. */
const nameMessage = (t: ErrorsText, { reason }: NameError): Text =>
  reason.kind === 'length'
    ? t('nameLength', { max: String(reason.max) })
    : t('nameCharacters', { character: reason.character });

/** Returns an error's message in a language. Errors that are not translated are in English. */
export function messageIn(error: UserError | HttpError, language: Language): Text {
  if (error instanceof TranslatedError || error instanceof ForbiddenError) return error.translation(language);
  if (error instanceof HttpError) {
    const { message, status, extra, [reasonKey]: reason } = error;
    return apiMessageIn(
      { message, status, fields: extra.fields, more: extra.more, [reasonKey]: reason },
      language,
    );
  }
  if (language !== 'en') {
    const t = errorsTexts(language);
    if (error instanceof NameError) return nameMessage(t, error);
    if (error instanceof IdentityError) return identityMessage(t, error);
  }
  return ownWords(error.message);
}
