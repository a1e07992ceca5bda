import type { Catalogue } from '../../../admin-ui/shell/index.ts';

/** English texts of the pages for members and invitations, and of the email with an invitation. */
export default {
  members: 'Members',
  pendingInvitations: 'Pending invitations',
  inviteColleague: 'Invite a colleague',
  // List
  memberRows: 'members',
  name: 'Name',
  profile: 'Profile',
  since: 'Since',
  noMembers: 'Members can log in and work with the records that their profile permits.',
  invitationRows: 'invitations',
  for: 'For',
  until: 'Until',
  noInvitations: 'No pending invitations.',
  // Invitation
  inviteMember: 'Invite member',
  inviteAMember: 'Invite a member',
  email: 'Email address',
  nameHelp: 'Optional. The invited person can change it.',
  profileHelp: 'Determines what this person can do.',
  invitationMailed: 'Invitation sent to {}.',
  mailFailed: 'The email could not be sent. Send the link and the code yourself.',
  invitationFor: 'Invitation for {email}',
  invitationOnce:
    'Send the link and the code. The code is shown only once. The invitation can be used once, within {days} days.',
  link: 'Link',
  code: 'Code',
  copyLink: 'Copy link',
  copyCode: 'Copy code',
  alreadyMember: '{email} is already a member of this organization',
  closedInvitation: 'this invitation is no longer open',
  cancelInvitation: 'Cancel invitation',
  cancelInvitationFor: 'Cancel the invitation for {email}',
  cancelInvitationQuestion: 'Cancel the invitation for {email}?',
  cancelsInvitation: 'Its link and code stop working immediately.',
  invitationCanceled: 'Invitation for {} canceled.',
  // Member
  missing: 'this member does not exist',
  lastAdministrator: 'this is the last administrator. Make another member an administrator first.',
  changeProfile: 'Change profile',
  changeProfileFor: 'Change profile for {email}',
  profileChanged: 'Profile changed for {}.',
  resetPassword: 'Reset password',
  resetPasswordFor: 'Reset password for {email}',
  resetQuestion: 'Create a reset link for {email}?',
  resetConsequence:
    'Anyone with the link and its code can choose a new password for this member. Send both only to this member.',
  resetsAreMailed: 'reset links are sent by email. The member can request one on the login page.',
  createResetLink: 'Create reset link',
  resetLinkFor: 'Reset link for {email}',
  resetLinkOnce:
    'Send the link and the code. The code is shown only once. The link can be used once, within {hours} hours.',
  remove: 'Remove',
  removeName: 'Remove {email}',
  removeMember: 'Remove member',
  removeQuestion: 'Remove {email}?',
  removeConsequence:
    'This member immediately loses access to {organization}, and API keys on their behalf are revoked. Their past changes remain under their name.',
  memberRemoved: '{} removed.',
  unusableInvitation:
    'this invitation cannot be used: the code is wrong, it has expired, or it has already been used',
  userDisabled: 'this user is disabled. Ask the operator of this instance.',
  alreadyRegistered: "{email} is already registered. Enter the user's password.",
  // Email
  invitationTo: 'Invitation to {organization}',
  invitedTo: 'You have been invited to join {organization}.',
  openPage: 'Open this page:',
  enterCode: 'If the page asks for a code, enter {code}.',
  invitationValidity:
    'The code can be used once, within {days} days. If you do not know {organization}, ignore this email.',
} as const satisfies Catalogue;
