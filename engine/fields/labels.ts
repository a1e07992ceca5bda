import { referenceName } from './alternatives.ts';
import { type Field, refersToUser } from './field.ts';

/** Words that are written in capitals, separated by spaces. */
const capitalized =
  'ai api b2b b2c bic ceo cfo crm cto csv eta eu faq gdpr gps html http https iban id ip isbn iso json kpi nda pdf po roi seo sku sla sms sso ssn ui uri url utc utm vat vin vip xml';

/** Words that are written with capitals inside. */
const mixed = 'GitHub HubSpot IDs LinkedIn PayPal TikTok URLs WhatsApp YouTube';

/** Words that are spelled differently in labels than in names. */
const spellings: ReadonlyMap<string, string> = new Map([
  ...capitalized.split(' ').map((word) => [word, word.toUpperCase()] as const),
  ...mixed.split(' ').map((word) => [word.toLowerCase(), word] as const),
]);

/**
 * Returns the label for a name from the definitions: `close_date` becomes "Close date", and `linkedin_url`
 * becomes "LinkedIn URL".
 */
export function humanize(name: string): string {
  const text = name
    .split('_')
    .map((word) => spellings.get(word) ?? word)
    .join(' ');
  return text.charAt(0).toUpperCase() + text.slice(1);
}

/**
 * Returns a field's label: its `label`, or a label derived from its name. The label for the reference `account_id` is
 * "Account", and the label for the references `tag_ids` is "Tags".
 */
export const fieldLabel = (field: Field): string =>
  field.label ??
  humanize(
    field.type.refers === true || refersToUser(field)
      ? referenceName(field).replace(/_id$/, '').replace(/_ids$/, 's')
      : field.name,
  );

/** Returns a label as it appears within a sentence: "Close date" becomes "close date", and "VAT ID" does not change. */
export const inSentence = (label: string): string =>
  /^\S+\p{Lu}/u.test(label) ? label : label.charAt(0).toLowerCase() + label.slice(1);
