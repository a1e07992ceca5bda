// Which beginnings of texts are indexed, and in what form.

/** Characters of a text in an index: a B-tree entry is limited to about 2,700 bytes, a text is not. */
export const indexedLength = 100;
/** The beginning of a text that an index holds. */
export const indexedPrefix = (column: string) => `left(${column}, ${indexedLength})`;

interface LookupKind {
  /** SQL that is equal for equivalent texts. Immutable, because it is indexed. */
  readonly key: (text: string) => string;
  /** Whether few records have the key of a value; absent: of every value. */
  readonly isSelective?: (value: string) => boolean;
}

/** Ways to find a record by a text. */
const lookups = {
  exact: { key: (text) => text },
  /** E-mail addresses, compared without case. */
  caseless: { key: (text) => `lower(${text})` },
  /** Telephone numbers, compared by digits: "+1 (555) 010-0" equals "0015550100". */
  digits: {
    key: (text) => `regexp_replace(regexp_replace(${text}, '\\D', '', 'g'), '^00', '')`,
    // All records without a telephone number share the empty key.
    isSelective: (value) => value.replace(/\D/g, '').replace(/^00/, '') !== '',
  },
} as const satisfies Readonly<Record<string, LookupKind>>;

/** The name of a lookup. */
export type Lookup = keyof typeof lookups;

/** A lookup by its name, whichever it is. */
export const lookupOf = (name: Lookup): LookupKind => lookups[name];
