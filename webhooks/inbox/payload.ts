import { findRow } from '../../engine/tables/index.ts';
import type { Deliveries } from '../queue/index.ts';
import { detailedItems } from '../queue/index.ts';
import { inboxQueue } from './inbox.ts';
import { inboxTexts } from './texts/index.ts';

/** Maximum number of payload characters shown on the page. */
const maxLength = 4000;

/** Returns the payload of an event as part of its page. */
export const payloadOf: Deliveries['page'] = async ({ tables, organization, language }, { id }) => {
  const source = detailedItems(inboxQueue, maxLength + 1);
  const { detail = '' } = (await findRow(tables, source, organization, id)) ?? {};
  const long = detail.length > maxLength ? `${detail.slice(0, maxLength)} …` : detail;
  return { values: [{ label: inboxTexts(language)('payload'), long }] };
};
