import type { Catalogue } from '../../../admin-ui/shell/index.ts';

/** English texts of the pages for members and invitations, and of the email with an invitation. */
export default {
  members: 'Members',
  pendingInvitations: 'Pending invitations',
  inviteColleague: 'Invite a colleague',
  // Email
  invitationTo: 'Invitation to {organization}',
  invitedTo: 'You have been invited to join {organization}.',
  openPage: 'Open this page:',
  enterCode: 'If the page asks for a code, enter {code}.',
  invitationValidity:
    'The code can be used once, within 7 days. If you do not know {organization}, ignore this email.',
} as const satisfies Catalogue;
