// Test support: quotes whose rollups combine their lines, which have computed amounts.
import type { Source } from '../../engine/yaml/load.ts';

const field = 'description: A field.';

/** Quotes with rollups, and the resources whose records they combine. */
export const quotes: readonly Source[] = [
  {
    file: 'quotes.yaml',
    text: `
singular: quote
description: A quote.
common: all
fields:
  name: { type: string, ${field} }
  parent_id: { type: reference, to: quotes, nullable: true, ${field} }
  total: { type: number, rollup: { sum: amount, of: quote_lines, by: quote_id }, ${field} }
  paid: { type: money, currency: EUR, rollup: { sum: payment, of: quote_lines, by: quote_id }, ${field} }
  positions: { type: integer, rollup: { count: true, of: quote_lines, by: quote_id }, ${field} }
  large_positions: { type: int64, rollup: { count: true, of: quote_lines, by: quote_id, where: amount >= 7.5 }, ${field} }
  smallest: { type: number, rollup: { min: amount, of: quote_lines, by: quote_id }, ${field} }
  average: { type: number, rollup: { avg: amount, of: quote_lines, by: quote_id }, ${field} }
  pieces: { type: integer, rollup: { sum: quantity, of: quote_lines, by: quote_id }, ${field} }
  last_due_on: { type: date, rollup: { max: due_on, of: quote_lines, by: quote_id }, ${field} }
  last_seen_at: { type: timestamp, rollup: { max: seen_at, of: quote_lines, by: quote_id }, ${field} }
  profit: { type: number, group: finance, rollup: { sum: profit, of: quote_lines, by: quote_id }, ${field} }
  parts: { type: integer, rollup: { count: true, of: quotes, by: parent_id }, ${field} }
  visits: { type: integer, rollup: { count: true, of: visits, by: quote_id, unscoped: true }, ${field} }
sort: { by: id }
children: { lines: { of: quote_lines, by: quote_id, sort: id, writable: true } }
`,
  },
  {
    file: 'quote_lines.yaml',
    text: `
singular: quote_line
description: A line of a quote.
common: all
trash: 30 days
fields:
  quote_id: { type: reference, to: quotes, nullable: true, ${field} }
  quantity: { type: integer, default: 1, ${field} }
  unit_price: { type: number, nullable: true, ${field} }
  amount: { type: number, computed: quantity * unit_price, ${field} }
  payment: { type: money, currency: EUR, nullable: true, ${field} }
  due_on: { type: date, nullable: true, ${field} }
  seen_at: { type: timestamp, nullable: true, ${field} }
  profit: { type: number, nullable: true, group: finance, ${field} }
sort: { by: id }
filters: [quote_id, { field: amount, operators: [eq, gte, is_null] }]
`,
  },
  {
    file: 'visits.yaml',
    text: `
singular: visit
description: A visit.
common: all
fields:
  quote_id: { type: reference, to: quotes, nullable: true, ${field} }
  kind: { type: string, ${field} }
scopes: { calls: kind == "call" }
sort: { by: id }
filters: [quote_id]
`,
  },
];
