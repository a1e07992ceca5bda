import type { TranslationOf } from '../../../admin-ui/shell/index.ts';
import type en from './en.ts';

/** German texts of the pages for members and invitations, and of the email with an invitation. */
export default {
  members: 'Mitglieder',
  pendingInvitations: 'Offene Einladungen',
  inviteColleague: 'Kollegen oder Kollegin einladen',
  // Email
  invitationTo: 'Einladung zu {organization}',
  invitedTo: 'Sie wurden eingeladen, {organization} beizutreten.',
  openPage: 'Öffnen Sie diese Seite:',
  enterCode: 'Falls die Seite nach einem Code fragt, geben Sie {code} ein.',
  invitationValidity:
    'Der Code kann innerhalb von 7 Tagen einmal verwendet werden. Wenn Sie {organization} nicht kennen, ignorieren Sie diese E-Mail.',
} as const satisfies TranslationOf<typeof en>;
