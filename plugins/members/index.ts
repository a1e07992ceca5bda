// members:
// May import

export { acceptInvite, type OpenInvite, openInvite } from './invites.ts';
export { membersModule } from './module.ts';
