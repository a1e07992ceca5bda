import type { FastifyReply } from 'fastify';
import type { Language } from './catalogue.ts';
import { shellTexts } from './texts/index.ts';
import type { Link } from './views.ts';

/** Returns the link to a full value that a page truncates. @param label the value's label */
export function wholeValueLink(language: Language, label: string, href: string): Link {
  const t = shellTexts(language);
  return { label: t('showValue'), name: t('showValueOf', { field: label }), href };
}

/** Sends a full value as plain text. */
export function sendWholeValue(reply: FastifyReply, value: string): string {
  reply.header('content-type', 'text/plain; charset=utf-8');
  return value;
}
