// Finds messages from and to a person: by the phone numbers and email addresses of the person's record.
import { sql } from 'kysely';
import type { Resource } from '../../engine/compile/index.ts';
import { type Field, indexedPrefix, lookupOf, phoneVariants } from '../../engine/fields/index.ts';
import { canReadAll, everyGrant } from '../../engine/records/index.ts';
import { arrayText } from '../../engine/sql/index.ts';
import { inPeriod, microseconds, type TimelineRequest } from '../../plugins/admin-ui/shell/index.ts';

const [email, phone] = [lookupOf('caseless'), lookupOf('digits')];

/** Returns an SQL expression for the kind of a sender or recipient: `email` or `phone`. */
export const contactKind = (text: string): string =>
  `case when strpos(${text}, '@') > 0 then 'email' else 'phone' end`;

/** Returns an SQL expression that is equal for equal email addresses, and for phone numbers with the same digits. */
const keyOf = (text: string): string =>
  `case when strpos(${text}, '@') > 0 then ${email.key(text)} else ${phone.key(text)} end`;

/** Returns the index key for the sender or recipient of a message. */
export const contactKey = (column: string): string => indexedPrefix(keyOf(column));

/** Phone numbers, with the prefix of Twilio's WhatsApp messages if there is one. Other IDs can contain the same digits. */
const phonePattern = '^(whatsapp:)?[+]?[0-9 ()./-]+$';

/** A notation of a phone number or email address. */
interface Contact {
  /** The value in the record. */
  readonly text: string;
  readonly key: string;
}

/** Returns the notations of the phone numbers and email addresses in a record, each of them once. */
function contactsOf({ fields, values, membership: { phoneRegion } }: TimelineRequest): readonly Contact[] {
  const contacts = new Map<string, Contact>();
  for (const { name, comparison } of fields) {
    const text = values[name];
    if (typeof text !== 'string') continue;
    for (const key of keysOf(text, comparison, phoneRegion))
      if (key !== '' && !contacts.has(key)) contacts.set(key, { text, key });
  }
  return [...contacts.values()];
}

/** Returns the keys of a field's value. Values other than phone numbers and email addresses have none. */
function keysOf(text: string, comparison: Field['comparison'], phoneRegion: string | undefined): string[] {
  if (comparison === 'caseless') return text.includes('@') ? [email.keyOf(text)] : [];
  if (comparison !== 'digits') return [];
  return (phoneRegion === undefined ? [text] : phoneVariants(text, phoneRegion)).map(phone.keyOf);
}

/**
 * Returns a function that returns whether a member can read all phone numbers and email addresses of all records. Otherwise, the
 * member could write one that is hidden from them into another record, whose timeline would then contain the messages.
 */
export function contactReaders(resources: readonly Resource[]): (request: TimelineRequest) => boolean {
  const definitions = resources.map(({ definition }) => definition);
  const hasContacts = ({ comparison }: Field) => comparison === 'caseless' || comparison === 'digits';
  const names = definitions.filter(({ fields }) => fields.some(hasContacts)).map(({ name }) => name);
  return ({ membership }) => canReadAll(definitions, membership.grants, everyGrant, names);
}

/** A message from or to a person. */
interface FoundMessage {
  readonly id: string;
  /** RFC 3339 timestamp in microseconds. */
  readonly at: string;
  /** The value of the record by which the message was found. */
  readonly contact: string;
  /** The start of the text. */
  readonly text: string;
}

/** A table of messages: SQL fragments, which must not contain values from requests. */
interface MessageTable<Name extends string> {
  /** The table, with the alias `m`, and its joins. */
  readonly from: string;
  /** The phone number or email address of the sender or recipient. */
  readonly party: string;
  readonly at: string;
  /** Expressions for additional properties, by name. */
  readonly columns: Readonly<Record<Name, string>>;
  /** Additional condition. */
  readonly where?: string;
}

/** Maximum number of characters of a message in a timeline. */
const maxTextLength = 4000;

/**
 * Returns the messages in a period whose sender or recipient has a phone number or email address of the record, newest first.
 * For each notation, the statement reads at most as many messages as the request's limit. The caller must be one of the
 * {@link contactReaders}.
 */
export async function findMessages<Name extends string>(
  request: TimelineRequest,
  { from, party, at, columns, where = 'true' }: MessageTable<Name>,
): Promise<readonly (FoundMessage & Readonly<Record<Name, string>>)[]> {
  const { tables, organization, limit } = request;
  const contacts = contactsOf(request);
  if (contacts.length === 0) return [];
  const text = `case when length(m.body) > ${maxTextLength} then left(m.body, ${maxTextLength}) || '…' else m.body end`;
  const selected = Object.entries<string>({ id: 'm.id::text', text, ...columns }).map(
    ([name, expression]) => sql`${sql.raw(expression)} as ${sql.id(name)}`,
  );
  const { rows } = await sql<FoundMessage & Readonly<Record<Name, string>>>`
    select _f.* from unnest(${arrayText(contacts.map(({ key }) => key))}::text[],
      ${arrayText(contacts.map((contact) => contact.text))}::text[]) _c(key, contact)
    cross join lateral (
      select _c.contact, ${sql.join(selected)}, ${microseconds(at)} as at, ${sql.raw(at)} as _at, m.id as _id
      from ${sql.raw(from)}
      where m.organization_id = ${organization}::bigint
        and ${sql.raw(contactKey(party))} = ${sql.raw(indexedPrefix('_c.key'))} and ${sql.raw(keyOf(party))} = _c.key
        and (${sql.raw(contactKind(party))} = 'email' or ${sql.raw(party)} ~ ${phonePattern}::text)
        and ${sql.raw(where)} and ${inPeriod(request, { at, id: 'm.id' })}
      order by ${sql.raw(at)} desc, m.id desc limit ${limit}::int) _f
    order by _f._at desc, _f._id desc limit ${limit}::int`.execute(tables);
  return rows;
}
