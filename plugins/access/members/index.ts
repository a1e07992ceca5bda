// Members: members of organizations, and invitations.
// May import engine, secrets, identity, profiles, admin-ui/shell, operations/mail.

export { acceptInvite, acceptInviteTo, cancelAllInvites, type OpenInvite, openInvite } from './invites.ts';
export { memberRows } from './members.ts';
export { membersModule } from './module.ts';
