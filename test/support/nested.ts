import type { Source } from '../../engine/yaml/load.ts';

/** Resources with writable lists of children. */
export const nested: readonly Source[] = [
  {
    file: 'resources/quotes.yaml',
    text: `
singular: quote
description: An offer.
common: all
fields:
  owner_id: { assignable: true }
  title: { type: string, description: The title. }
sort: { by: title }
filters: [title]
scopes:
  own: owner_id == me
children:
  lines: { of: quote_lines, by: quote_id, sort: position, writable: true }
  notes: { of: quote_notes, by: quote_id, sort: { by: text, direction: desc }, writable: true }
`,
  },
  {
    file: 'resources/quote_lines.yaml',
    text: `
singular: quote_line
description: A line of an offer.
common: all
fields:
  owner_id: { assignable: true }
  quote_id: { type: reference, to: quotes, required: true, on_delete: cascade, description: The offer. }
  product_id: { type: reference, to: products, nullable: true, description: The product. }
  name: { type: string, max_length: 20, description: The name. }
  position: { type: integer, default: 1, description: The position. }
  amount: { type: number, nullable: true, description: The amount. }
  code: { type: string, nullable: true, description: The code. }
  margin: { type: number, nullable: true, group: finance, description: The margin. }
unique: [[quote_id, code]]
sort: { by: name }
filters: [quote_id]
children:
  marks: { of: line_marks, by: line_id, writable: true }
scopes:
  own: owner_id == me
  small: position < 100
`,
  },
  {
    file: 'resources/quote_notes.yaml',
    text: `
singular: quote_note
description: A note on an offer.
common: all
fields:
  quote_id: { type: reference, to: quotes, nullable: true, description: The offer. }
  text: { type: string, description: The text., renamed_from: body, alias: true, deprecated: 2026-11-01, sunset: 2027-06-30 }
sort: { by: id }
`,
  },
  {
    file: 'resources/line_marks.yaml',
    text: `
singular: line_mark
description: A mark that prevents the delete of a line.
common: all
fields:
  line_id: { type: reference, to: quote_lines, required: true, on_delete: restrict, description: The line. }
sort: { by: id }
`,
  },
  {
    file: 'resources/products.yaml',
    text: `
singular: product
description: Something that is sold.
common: all
fields:
  name: { type: string, description: The name. }
sort: { by: name }
`,
  },
];
