// Index keys for text columns.

/** Number of a text's characters that are indexed. PostgreSQL limits B-tree entries to about 2,700 bytes. */
export const indexedLength = 100;
/** Returns an SQL expression for a text's indexed prefix. */
export const indexedPrefix = (column: string) => `left(${column}, ${indexedLength})`;

/** A method of finding records by text. */
interface LookupKind {
  /** Returns an SQL expression with equal values for equivalent texts. It must be immutable, because it is indexed. */
  readonly key: (text: string) => string;
  /** Returns whether only a few records share a value's key. Absent if this is true for all values. */
  readonly isSelective?: (value: string) => boolean;
}

/** All lookups by name. */
const lookups = {
  exact: { key: (text) => text },
  /** Email addresses, ignoring case. */
  caseless: { key: (text) => `lower(${text})` },
  /** Phone numbers, compared by digits: "+1 (555) 010-0" equals "0015550100". */
  digits: {
    key: (text) => `regexp_replace(regexp_replace(${text}, '\\D', '', 'g'), '^00', '')`,
    // All records without a phone number share the empty key.
    isSelective: (value) => value.replace(/\D/g, '').replace(/^00/, '') !== '',
  },
} as const satisfies Readonly<Record<string, LookupKind>>;

/** The name of a lookup. */
export type Lookup = keyof typeof lookups;

/** Returns the lookup with this name. */
export const lookupOf = (name: Lookup): LookupKind => lookups[name];
