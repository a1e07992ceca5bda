import type { TranslationOf } from '../../../admin-ui/shell/index.ts';
import type en from './en.ts';

/** German texts of the pages for members and invitations. */
export default {
  members: 'Mitglieder',
  pendingInvitations: 'Offene Einladungen',
  inviteColleague: 'Kollegen oder Kollegin einladen',
} as const satisfies TranslationOf<typeof en>;
