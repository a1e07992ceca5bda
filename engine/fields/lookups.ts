// Which beginnings of texts are indexed, and in what form.

/** Characters of a text in an index: a B-tree entry is limited to about 2,700 bytes, a text is not. */
export const indexed = 100;
/** The beginning of a text that an index holds. */
export const head = (column: string) => `left(${column}, ${indexed})`;

/** Ways to find a record by a text: SQL that is equal for equivalent texts. Immutable, because it is indexed. */
export const lookups = {
  exact: (text: string) => text,
  /** E-mail addresses, compared without case. */
  caseless: (text: string) => `lower(${text})`,
  /** Telephone numbers, compared by digits: "+1 (555) 010-0" equals "0015550100". */
  digits: (text: string) => `regexp_replace(regexp_replace(${text}, '\\D', '', 'g'), '^00', '')`,
} as const;

/** The name of a lookup. */
export type Lookup = keyof typeof lookups;
