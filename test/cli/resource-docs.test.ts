// The description of resources that `crm docs` prints.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { resourceDocs } from '../../app/commands/resource-docs.ts';
import { compileResource } from '../../engine/compile/compile.ts';
import { checkSources } from '../../engine/definition/check-sources.ts';

const common = {
  file: 'common.yaml',
  text: 'fields:\n  id: { type: int64, read_only: true, set: id }\n  organization_id: { type: int64, read_only: true, set: organization }\n',
};
const offers = {
  file: 'offers.yaml',
  text: `
description: Offers *to* buyers.
common: none
fields:
  number: { type: string, sequence: "A-{000}" }
  price: { type: money, currency: any, required: true, description: "Without | VAT." }
  parent_id: { type: reference, to: offers, nullable: true, label: Previous offer }
  score: { type: integer, min: 1, max: 9, group: internal, nullable: true }
  vat: { type: number, computed: score * 2, group: internal }
  channel: { type: string, suggested: [web, "a|b"] }
  status:
    type: string
    enum: [draft, 'sent; "final"', won]
    closed: true
    default: draft
    transitions: { draft: ['sent; "final"'], 'sent; "final"': [draft, won] }
sort: { by: number, direction: asc }
filters: [{ field: status, operators: [eq, in] }]
search: [channel]
unique: [[parent_id, channel]]
checks: [{ that: price.amount >= 0, fields: [price], message: No. }]
locked: status == "won"
scopes: { final: 'status == "won"' }
children: { next: { of: offers, by: parent_id } }
trash: 30 days
custom_fields: true
`,
};

test('fields and transitions are described', () => {
  const resources = compileResource(checkSources([common, offers]), '/api/v1', []);
  assert.equal(
    resourceDocs(resources),
    `# Resources

## Offers

Offers \\*to\\* buyers.

Path: \`/api/v1/offers\`

| Field | Label | Type | Description |
| --- | --- | --- | --- |
| \`id\` | ID | int64, read-only |  |
| \`organization_id\` | Organization ID | int64, read-only |  |
| \`number\` | Number | string, read-only | Numbered as \`A-{000}\`. |
| \`price\` | Price | money, any currency, required | Without \\| VAT. |
| \`parent_id\` | Previous offer | reference to offers, nullable |  |
| \`score\` | Score | integer, nullable | Group: \`internal\`. At least 1, at most 9. |
| \`vat\` | VAT | number, read-only | Group: \`internal\`. Computed: \`score * 2\`. |
| \`channel\` | Channel | string | Suggested: \`web\`, \`a\\|b\`. |
| \`status\` | Status | string | Values: \`draft\`, \`sent; "final"\`, \`won\`. |
| \`custom\` | Custom | json | The values of the organization's own fields. |

- **Default order**: \`number\`, ascending
- **Filters**: \`status\` (eq, in), \`parent_id\` (in)
- **Search**: \`channel\`
- **Unique**: \`parent_id\` with \`channel\`
- **Checks**: \`price.amount >= 0\`
- **Locked**: records cannot be changed if \`status == "won"\`
- **Scopes**: \`final\` (\`status == "won"\`)
- **Children**: \`next\` (\`offers\` by \`parent_id\`)
- **Trash**: deleted records can be restored for 30 days
- **Custom fields**: administrators can add fields for their organization

### Transitions of \`status\`

\`\`\`mermaid
stateDiagram-v2
state "draft" as s1
state "sent#59; #34;final#34;" as s2
state "won" as s3
[*] --> s1
s1 --> s2
s2 --> s1
s2 --> s3
s3 --> [*]
\`\`\`

- draft, where new records can start, can change to sent; "final".
- sent; "final" can change to draft or won.
- won is final.`,
  );
});

test('rules, targets and scopes are described, special characters are escaped, and former names are omitted', () => {
  const orders = {
    file: 'orders.yaml',
    text: `
description: 'a\\b \`c\` _d_ [e](f) <g> !h #i ~j~ | k'
common: none
fields:
  code: { type: string, required: true, unique: true, min_length: 2, max_length: 9, pattern: "^\`|x$" }
  email: { type: string, format: email, unique: true, nullable: true }
  phone: { type: string, renamed_from: tel, alias: true, deprecated: 2026-01-01, sunset: 2027-01-01 }
  price: { type: money, currency: EUR, nullable: true }
  words: { type: list, of: string, max_items: 5 }
  about: { type: reference, to: [orders, lines], nullable: true, on_delete: restrict }
  line_ids: { type: references, to: lines }
  due: { type: date, nullable: true, default_from: today }
  amount: { type: number, rollup: { sum: amount, of: lines, by: order_id, unscoped: true } }
  old: { type: string, retired: true }
  stage: { type: string, renamed_from: phase, alias: true, deprecated: 2026-01-01, sunset: 2027-01-01, enum: [a, b, c], closed: true, default: a, transitions: { a: { b: all, c: big }, b: [a] } }
sort: { by: due, direction: desc }
scopes: { big: code > "M", own: code == "A|B" }
children: { lines: { of: lines, by: order_id, writable: true } }
`,
  };
  const lines = {
    file: 'lines.yaml',
    text: 'common: none\nfields:\n  order_id: { type: reference, to: orders, required: true, on_delete: cascade }\n  amount: { type: number }\n',
  };
  const [, ofLines = '', ofOrders] = resourceDocs(
    compileResource(checkSources([common, orders, lines]), '/api/v1', []),
  ).split(/^## .*\n/m);
  assert.match(ofLines, /\| reference to orders, required \| On delete: cascade\. \|/);
  assert.equal(
    ofOrders,
    `
a\\\\b \\\`c\\\` \\_d\\_ \\[e\\](f) \\<g\\> \\!h \\#i \\~j\\~ \\| k

Path: \`/api/v1/orders\`

| Field | Label | Type | Description |
| --- | --- | --- | --- |
| \`id\` | ID | int64, read-only |  |
| \`organization_id\` | Organization ID | int64, read-only |  |
| \`code\` | Code | string, required | At least 2 characters, at most 9 characters, pattern \`^'\\|x$\`. Unique. |
| \`email\` | Email | string, nullable | Format email. Unique (caseless). |
| \`phone\` | Phone | string |  |
| \`price\` | Price | money, EUR, nullable |  |
| \`words\` | Words | list of string | At most 5 values. |
| \`about\` | About | reference to orders or lines, nullable | On delete: restrict. |
| \`line_ids\` | Lines | references to lines |  |
| \`due\` | Due | date, nullable | Default: \`today\`. |
| \`amount\` | Amount | number, read-only | Rollup: \`sum of amount in lines by order_id\`. |
| \`stage\` | Stage | string | Values: \`a\`, \`b\`, \`c\`. |

- **Default order**: \`due\`, descending
- **Filters**: \`about\` (in), \`line_ids\` (in)
- **Unique**: \`code\`; \`email\`
- **Scopes**: \`big\` (\`code > "M"\`), \`own\` (\`code == "A\\|B"\`)
- **Children**: \`lines\` (\`lines\` by \`order_id\`, writable)

### Transitions of \`stage\`

\`\`\`mermaid
stateDiagram-v2
state "a" as s1
state "b" as s2
state "c" as s3
[*] --> s1
s1 --> s2
s1 --> s3 : big
s2 --> s1
s3 --> [*]
\`\`\`

- a, where new records can start, can change to b or c (in the scope big).
- b can change to a.
- c is final.`,
  );
});
