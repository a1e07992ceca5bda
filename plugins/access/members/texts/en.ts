import type { Catalogue } from '../../../admin-ui/shell/index.ts';

/** English texts of the pages for members and invitations. */
export default {
  members: 'Members',
  pendingInvitations: 'Pending invitations',
  inviteColleague: 'Invite a colleague',
} as const satisfies Catalogue;
