import type { Resource } from '../../engine/compile/index.ts';
import { findRow } from '../../engine/tables/index.ts';
import type { Language, RecordPage, Text } from '../../plugins/admin-ui/shell/index.ts';
import { attemptsIn, type Deliveries } from '../queue/index.ts';
import { canReadBodies, exchangeRows } from './deliveries.ts';
import { maxBytes, maxStoredBytes } from './post.ts';
import { subscriptionsTexts } from './texts/index.ts';
import { eventTitleIn } from './titles.ts';

/** Returns a size in words. */
function sizeText(bytes: number, language: Language): Text {
  const t = subscriptionsTexts(language);
  if (bytes < 1024) return t('bytes', { count: bytes });
  const size = new Intl.NumberFormat(language, { maximumFractionDigits: 1 }).format(
    Math.min(bytes, maxBytes) / 1024,
  );
  return bytes > maxBytes ? t('moreKibibytes', { size }) : t('kibibytes', { size });
}

/** The start of a body, and its size in bytes. */
interface Body {
  readonly text: string;
  readonly bytes: number;
}

/** Returns a body as a value on a page. */
function bodyValue(label: Text, { text, bytes }: Body, language: Language): RecordPage['values'][number] {
  const t = subscriptionsTexts(language);
  const size = sizeText(bytes, language);
  if (bytes === 0) return { label, text: t('emptyBody') };
  if (text === '') return { label, text: t('notText', { size }) };
  const isComplete = bytes <= maxStoredBytes;
  const first = sizeText(maxStoredBytes, language);
  return { label: isComplete ? label : t('startOf', { body: label, first, size }), long: text, isCode: true };
}

/** Returns a function that returns the last request of a delivery and its response as parts of its page. */
export const exchangePage =
  (resources: readonly Resource[]): Deliveries['page'] =>
  async ({ tables, organization, language, membership: { grants } }, { id }) => {
    const t = subscriptionsTexts(language);
    const exchange = await findRow(tables, exchangeRows, organization, id);
    if (exchange === undefined) return { values: [] };
    const { url, request, response, requestBody, responseBody, objects, events } = exchange;
    const facts = attemptsIn(exchange.attempts).find((attempt) => attempt.request !== undefined)?.request;
    const canRead = canReadBodies(resources, grants, objects);
    const isSent = request.startsWith('POST');
    const hasBodies = isSent && facts !== undefined;
    const received = facts?.received;
    return {
      ...(hasBodies && !canRead && { intro: t('bodiesHidden', { resources: objects.join(', ') }) }),
      values: [
        ...(events.length === 0
          ? []
          : [
              {
                label: t('eventsOfBatch'),
                long: events.map((event) => eventTitleIn(resources, event, language)).join('\n'),
              },
            ]),
        ...(isSent
          ? [
              {
                label: t('requestHeaders'),
                long: `${`POST ${url}`.trimEnd()}${request.slice('POST'.length)}`,
                isCode: true,
              },
            ]
          : []),
        ...(hasBodies && canRead
          ? [bodyValue(t('requestBody'), { text: requestBody, bytes: facts.sent }, language)]
          : []),
        ...(isSent && response !== '' ? [{ label: t('responseHeaders'), long: response, isCode: true }] : []),
        ...(hasBodies && canRead && received !== undefined
          ? [bodyValue(t('responseBody'), { text: responseBody, bytes: received }, language)]
          : []),
      ],
    };
  };
