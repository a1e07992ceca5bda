import { int64, phoneVariants } from '../../engine/fields/index.ts';
import type { ExistingRecords } from '../../engine/records/index.ts';

/** The status of a lead whose payment has arrived. */
export const convertedStatus = 'Closed - Converted';
/** A lead's final statuses. */
const finalStatuses = [convertedStatus, 'Closed - Not Converted'];
/** Minimum number of digits in an international phone number. */
const minDigits = 7;

/** Criteria for finding a lead. Blank criteria are ignored. */
export interface LeadTraits {
  readonly id: string;
  readonly email: string;
  readonly phone: string;
}

/**
 * Finds and locks a lead: by ID, then by case-insensitive email address, then by phone number. Prefers open
 * leads, then the newest lead. Returns the lead's ID, or undefined if no lead matches.
 * @param phoneRegion the country of phone numbers without a country code; if undefined, numbers are compared by their digits
 */
export async function findLead(
  records: ExistingRecords,
  { id, email, phone }: LeadTraits,
  phoneRegion: string | undefined,
): Promise<string | undefined> {
  const criteria: (readonly [field: string, value: string | readonly string[]])[] = [];
  if (int64(id) !== undefined) criteria.push(['id', id]);
  if (email !== '') criteria.push(['email', email]);
  if (phone.replace(/\D/g, '').length >= minDigits)
    criteria.push(['phone', phoneRegion === undefined ? phone : phoneVariants(phone, phoneRegion)]);
  for (const criterion of criteria) {
    const lead = await records.find('leads', criterion, ['status', finalStatuses]);
    if (lead !== undefined) return lead;
  }
  return undefined;
}

/** Marks a lead as converted. */
export const convertLead = (records: ExistingRecords, id: string): Promise<void> =>
  records.patch('leads', id, { status: convertedStatus });
