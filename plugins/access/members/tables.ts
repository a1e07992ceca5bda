import type { Generated } from 'kysely';
import {
  booleanColumn,
  defineTable,
  identity,
  link,
  now,
  tenant,
  tenantLink,
  textColumn,
  timestampColumn,
} from '../../../engine/tables/index.ts';

declare module '../../../engine/tables/index.ts' {
  interface TableRows {
    crm_invites: {
      organization_id: string;
      id: Generated<string>;
      /** ID in the link. The code that unlocks the invitation is not part of the link. */
      public_id: string;
      code_hash: string;
      email: string;
      /** The invitee's name as entered by the inviter; null if it was not entered. */
      name: string | null;
      profile_id: string;
      invited_by_id: string | null;
      /** Whether the code was only sent to the email address, so that using it verifies the address. */
      mailed: Generated<boolean>;
      created_at: Generated<Date>;
      expires_at: Date;
      used_at: Date | null;
    };
  }
}

const invites = defineTable(
  'crm_invites',
  {
    ...tenant(),
    id: identity,
    public_id: textColumn,
    code_hash: textColumn,
    email: textColumn,
    name: { ...textColumn, nullable: true },
    ...tenantLink('crm_invites', 'profile', 'crm_profiles', { ownColumns: ['profile_id'] }),
    ...link('invited_by_id', 'crm_users', { nullable: true, deleteRule: 'set null' }),
    mailed: { ...booleanColumn, defaultRaw: 'false' },
    created_at: now,
    expires_at: timestampColumn,
    used_at: { ...timestampColumn, nullable: true },
  },
  { uniques: [{ name: 'crm_invites_public_id', properties: ['public_id'] }] },
);

/** Table of invitations, including used invitations. */
export const membersTables = [invites];
