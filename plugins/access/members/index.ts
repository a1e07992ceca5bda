// Members: members of organizations, and invitations.
// May import engine, secrets, identity, mail, screens, profiles.

export { acceptInvite, acceptInviteTo, cancelAllInvites, type OpenInvite, openInvite } from './invites.ts';
export { listMembers } from './members.ts';
export { membersModule } from './module.ts';
