import type { TranslationOf } from '../../../admin-ui/shell/index.ts';
import type en from './en.ts';

/** German texts of the pages for members and invitations, and of the email with an invitation. */
export default {
  members: 'Mitglieder',
  pendingInvitations: 'Offene Einladungen',
  inviteColleague: 'Kollegen oder Kollegin einladen',
  // List
  memberRows: 'Mitglieder',
  name: 'Name',
  profile: 'Profil',
  since: 'Seit',
  noMembers: 'Mitglieder können sich anmelden und mit den Datensätzen arbeiten, die ihr Profil erlaubt.',
  invitationRows: 'Einladungen',
  for: 'Für',
  until: 'Bis',
  noInvitations: 'Keine offenen Einladungen.',
  // Invitation
  inviteMember: 'Mitglied einladen',
  inviteAMember: 'Mitglied einladen',
  email: 'E-Mail-Adresse',
  nameHelp: 'Optional. Die eingeladene Person kann den Namen ändern.',
  profileHelp: 'Legt fest, was diese Person tun kann.',
  invitationMailed: 'Einladung an {} gesendet.',
  mailFailed: 'Die E-Mail konnte nicht gesendet werden. Senden Sie den Link und den Code selbst.',
  invitationFor: 'Einladung für {email}',
  invitationOnce:
    'Senden Sie den Link und den Code. Der Code wird nur einmal angezeigt. Die Einladung kann innerhalb von {days} Tagen einmal verwendet werden.',
  link: 'Link',
  code: 'Code',
  copyLink: 'Link kopieren',
  copyCode: 'Code kopieren',
  alreadyMember: '{email} ist bereits Mitglied dieser Organisation.',
  closedInvitation: 'Diese Einladung ist nicht mehr offen.',
  cancelInvitation: 'Einladung zurückziehen',
  cancelInvitationFor: 'Einladung für {email} zurückziehen',
  cancelInvitationQuestion: 'Einladung für {email} zurückziehen?',
  cancelsInvitation: 'Der Link und der Code werden sofort ungültig.',
  invitationCanceled: 'Einladung für {} zurückgezogen.',
  // Member
  missing: 'Dieses Mitglied existiert nicht.',
  lastAdministrator:
    'Dies ist der letzte Administrator. Machen Sie zuerst ein anderes Mitglied zum Administrator.',
  changeProfile: 'Profil ändern',
  changeProfileFor: 'Profil von {email} ändern',
  profileChanged: 'Profil von {} geändert.',
  resetPassword: 'Passwort zurücksetzen',
  resetPasswordFor: 'Passwort von {email} zurücksetzen',
  resetQuestion: 'Link zum Zurücksetzen des Passworts für {email} erstellen?',
  resetConsequence:
    'Jeder, der den Link und den Code kennt, kann ein neues Passwort für dieses Mitglied wählen. Senden Sie beides nur an dieses Mitglied.',
  resetsAreMailed:
    'Links zum Zurücksetzen werden per E-Mail versandt. Das Mitglied kann auf der Anmeldeseite einen anfordern.',
  createResetLink: 'Link erstellen',
  resetLinkFor: 'Link zum Zurücksetzen des Passworts für {email}',
  resetLinkOnce:
    'Senden Sie den Link und den Code. Der Code wird nur einmal angezeigt. Der Link kann innerhalb von {hours} Stunden einmal verwendet werden.',
  remove: 'Entfernen',
  removeName: '{email} entfernen',
  removeMember: 'Mitglied entfernen',
  removeQuestion: '{email} entfernen?',
  removeConsequence:
    'Dieses Mitglied verliert sofort den Zugriff auf {organization}, und API-Schlüssel im Namen des Mitglieds werden widerrufen. Frühere Änderungen bleiben unter dem Namen des Mitglieds erhalten.',
  memberRemoved: '{} entfernt.',
  unusableInvitation:
    'Diese Einladung kann nicht verwendet werden: Der Code ist falsch, oder die Einladung ist abgelaufen oder wurde bereits verwendet.',
  userDisabled: 'Dieser Benutzer ist deaktiviert. Wenden Sie sich an den Betreiber dieser Instanz.',
  alreadyRegistered: '{email} ist bereits registriert. Geben Sie das Passwort des Benutzers ein.',
  // Email
  invitationTo: 'Einladung zu {organization}',
  invitedTo: 'Sie wurden eingeladen, {organization} beizutreten.',
  openPage: 'Öffnen Sie diese Seite:',
  enterCode: 'Falls die Seite nach einem Code fragt, geben Sie {code} ein.',
  invitationValidity:
    'Der Code kann innerhalb von {days} Tagen einmal verwendet werden. Wenn Sie {organization} nicht kennen, ignorieren Sie diese E-Mail.',
} as const satisfies TranslationOf<typeof en>;
