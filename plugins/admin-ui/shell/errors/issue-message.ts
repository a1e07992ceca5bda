import { type Expectation, type FieldIssue, type IssueReason, reasonKey } from '../../../../engine/errors.ts';
import { joinTexts, type Language, ownWords, type Text } from '../catalogue.ts';
import { type ErrorsText, errorsTexts } from './texts/index.ts';

/** Returns which values a field accepts. */
function expectationText(t: ErrorsText, expects: Expectation): Text {
  switch (expects.type) {
    case 'boolean':
      return t('boolean');
    case 'country':
      return t('country');
    case 'currency':
      return t('currency');
    case 'customValues':
      return t('customValues');
    case 'date':
      return t('date');
    case 'document':
      return t('document');
    case 'email':
      return t('email');
    case 'iana_timezone':
      return t('timeZone');
    case 'iban':
      return t('iban');
    case 'int64':
      return t('wholeNumber');
    case 'integer':
      return t('integer', { min: String(expects.min), max: String(expects.max) });
    case 'list':
      return t('list');
    case 'member':
      return t('member');
    case 'money':
      return t('money', { currency: expects.currency });
    case 'number':
      return t('number');
    case 'phone':
      return t('phone');
    case 'record':
      return t('record');
    case 'recordOf':
      return t('recordOf', { resources: expects.resources.join(', ') });
    case 'records':
      return t('references', { max: String(expects.max) });
    case 'string':
      return t('string');
    case 'text':
      return t('textUpTo', { max: String(expects.maxLength) });
    case 'timestamp':
      return t('timestamp');
    case 'url':
      return t('url');
  }
}

type Transition = Extract<IssueReason, { readonly kind: 'transition' }>;

/** Returns why a value cannot change. */
function changeText(t: ErrorsText, { previous, value, isNew }: Transition): Text {
  if (isNew) return value === undefined ? t('newWithoutValue') : t('newValue', { value });
  if (value === undefined) return t('transitionToNone', { previous: previous ?? '' });
  return previous === undefined ? t('transitionFromNone', { value }) : t('transition', { previous, value });
}

/** Returns why a value is invalid. */
export function reasonText(t: ErrorsText, reason: Exclude<IssueReason, { readonly kind: 'message' }>): Text {
  switch (reason.kind) {
    case 'required':
      return t('required');
    case 'characters':
      return t('characters');
    case 'expected':
      return reason.expects === undefined ? t('invalid') : expectationText(t, reason.expects);
    case 'min':
      return t('min', { limit: String(reason.limit) });
    case 'max':
      return t('max', { limit: String(reason.limit) });
    case 'min_length':
      return t('minLength', { count: reason.limit });
    case 'max_length':
      return t('maxLength', { count: reason.limit });
    case 'max_items':
      return t('maxItems', { count: reason.limit });
    case 'pattern':
      return t('pattern', { pattern: reason.pattern });
    case 'closed':
      return t('closed', { values: reason.values.join(', ') });
    case 'rules':
      return joinTexts(reason.reasons.map((rule) => reasonText(t, rule)));
    case 'missingRecord':
      return t('missingRecord', { id: reason.id });
    case 'notMember':
      return t('notMember');
    case 'duplicate':
      return reason.isCombination ? t('duplicateCombination') : t('duplicate');
    case 'transition': {
      const { allowed } = reason;
      const choices = allowed.length === 0 ? t('noneAllowed') : t('allowed', { values: allowed.join(', ') });
      return joinTexts([changeText(t, reason), choices]);
    }
  }
}

/** Returns the message of an issue, which appears beside its field, in a language. */
export function issueMessageIn(issue: FieldIssue, language: Language): Text {
  const { message, [reasonKey]: reason } = issue;
  if (language === 'en' || reason?.kind === 'message') return ownWords(message);
  const t = errorsTexts(language);
  return reason === undefined ? t('invalid') : reasonText(t, reason);
}
