import { findRow } from '../../engine/tables/index.ts';
import { linkWithParameters, wholeValueLink } from '../../plugins/admin-ui/shell/index.ts';
import { type Deliveries, detailedItems } from '../queue/index.ts';
import { inboxQueue } from './inbox.ts';
import { inboxTexts } from './texts/index.ts';

/** Maximum number of payload characters shown on the page. */
const maxLength = 4000;

/** Shows the payload of an event on its page. If it is long, the page shows its start and a link to all of it. */
export const payloadOfEvent: Required<Pick<Deliveries, 'page' | 'wholeValues'>> = {
  page: async ({ tables, organization, language, urlOf }, { id }) => {
    const source = detailedItems(inboxQueue, maxLength + 1);
    const { detail = '' } = (await findRow(tables, source, organization, id)) ?? {};
    const label = inboxTexts(language)('payload');
    if (detail.length <= maxLength) return { values: [{ label, long: detail }] };
    const whole = wholeValueLink(language, label, linkWithParameters(urlOf('value'), { id }, {}));
    return { values: [{ label, long: `${detail.slice(0, maxLength)} …`, whole }] };
  },
  wholeValues: {
    value: async ({ tables, organization }, { id }) =>
      (await findRow(tables, detailedItems(inboxQueue), organization, id))?.detail ?? '',
  },
};
