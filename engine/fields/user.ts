import { bigintType, int64FromText } from './numbers.ts';
import type { FieldType } from './type.ts';

// Users do not have an empty ID.
const { empty: _, ...ids } = bigintType;

/** The ID of a member of the organization, or null. A stored ID is kept if its user is no longer a member. */
export const userType: FieldType = {
  ...ids,
  expected: 'the id of a member (an integer) or null',
  expects: { type: 'member' },
  fromText: {
    ...int64FromText,
    label: 'the ID of a member',
    fits: (text, target) =>
      `case when ${int64FromText.fits(text, target)} then ${target.isMember(`(${text})::numeric::bigint`)} else false end`,
  },
  wider: ['int64', 'number'],
  operand: 'user',
  users: true,
  examples: [null],
};
