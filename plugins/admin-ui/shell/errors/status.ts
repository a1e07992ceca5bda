import { STATUS_CODES } from 'node:http';
import type { Language, TextIn } from '../catalogue.ts';
import { errorsTexts } from './texts/index.ts';

const { later } = errorsTexts;

const titles: Readonly<Record<number, TextIn>> = {
  400: later('badRequest'),
  403: later('forbiddenTitle'),
  404: later('notFoundTitle'),
  409: later('conflict'),
  413: later('payloadTooLarge'),
  429: later('tooManyRequests'),
  500: later('internalError'),
  503: later('unavailable'),
};

const messages: Readonly<Record<number, TextIn>> = {
  403: later('expiredForm'),
  404: later('pageNotFound'),
  413: later('formTooLarge'),
};

/** Returns the title of an error page. Statuses that rarely reach a person have their standard names. */
export const statusTitle = (status: number, language: Language): string =>
  titles[status]?.(language) ?? STATUS_CODES[status] ?? 'Failure';

/** Returns the message of an error page for an error whose own message is not written for users. */
export const statusMessage = (status: number, language: Language): string =>
  (messages[status] ?? later('failed'))(language);
