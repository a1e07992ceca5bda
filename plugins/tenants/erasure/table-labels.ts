import { personalDataTables } from '../../../engine/tables/index.ts';
import { type Language, ownWords, type Text, type TextIn } from '../../admin-ui/shell/index.ts';
import { erasureTexts } from './texts/index.ts';

const { later } = erasureTexts;

/** What the rows of each table with personal data are, by table. The tables of other modules have only the label that they declare. */
export const tableLabels: Readonly<Record<string, TextIn>> = {
  crm_event_deliveries: later('sentEvents'),
  crm_hook_places: later('hookErrors'),
  crm_proposals: later('proposals'),
  crm_idempotency: later('storedResponses'),
  crm_inbox: later('integrationEvents'),
  crm_jobs: later('jobs'),
  crm_merges: later('merges'),
  crm_received_messages: later('receivedMessages'),
  crm_notes: later('notes'),
  crm_messages: later('outgoingMessages'),
  crm_payment_events: later('paymentEvents'),
  crm_saved_views: later('savedViews'),
};

/** Returns what the rows of a table with personal data are, in a language. */
export const tableLabel = (
  table: Parameters<(typeof personalDataTables)['get']>[0],
  language: Language,
): Text => tableLabels[table]?.(language) ?? ownWords(personalDataTables.get(table)?.label ?? table);
