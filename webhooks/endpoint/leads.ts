import { int64 } from '../../engine/fields/index.ts';
import type { Records } from '../../engine/records/index.ts';

const converted = 'Closed - Converted';
/** The final states of a lead. */
const closed = [converted, 'Closed - Not Converted'];
/** The fewest digits of an international phone number. */
const leastDigits = 7;

/** What a payment says about its lead; blank parts are not searched. */
export interface LeadTraits {
  readonly id: string;
  readonly email: string;
  readonly phone: string;
}

/**
 * Finds the lead that a payment is for and locks it: by id, else by e-mail without case, else by phone;
 * open ones first, newest first.
 */
export async function findLead(
  records: Records,
  { id, email, phone }: LeadTraits,
): Promise<string | undefined> {
  const ways: (readonly [field: string, value: string])[] = [];
  if (int64(id) !== undefined) ways.push(['id', id]);
  if (email !== '') ways.push(['email', email]);
  if (phone.replace(/\D/g, '').length >= leastDigits) ways.push(['phone', phone]);
  for (const way of ways) {
    const found = await records.find('leads', way, ['status', closed]);
    if (found !== undefined) return found;
  }
  return undefined;
}

/** Marks a lead as converted. */
export const convertLead = (records: Records, id: string): Promise<void> =>
  records.patch('leads', id, { status: converted });
