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
