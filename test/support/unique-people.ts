// Test support: a resource with fields that are unique alone and in combination. The shipped resources do not
// have such fields.
import type { Source } from '../../engine/yaml/load.ts';

export const people: Source = {
  file: 'resources/people.yaml',
  text: `
singular: person
common: all
fields:
  email: { type: string, unique: true }
  code: { type: int64, nullable: true, unique: true }
  name: { type: string, default: nobody }
  age: { type: integer, default: 1 }
  since: { type: date, nullable: true }
  account_id: { type: reference, to: accounts, nullable: true }
unique: [account_id, since]
sort: { by: id }
`,
};
