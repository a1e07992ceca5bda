import type { TranslationOf } from '../../../admin-ui/shell/index.ts';
import type en from './en.ts';

/** German texts of login, invitations, password resets and the user's own page. */
export default {
  // Login
  logInTitle: 'Beim CRM anmelden',
  logIn: 'Anmelden',
  backToLogin: 'Zurück zur Anmeldung',
  email: 'E-Mail-Adresse',
  password: 'Passwort',
  organization: 'Organisation',
  passkeyFailed:
    'Ihr Browser konnte keinen Passkey verwenden. Versuchen Sie es erneut oder melden Sie sich mit Ihrem Passwort an.',
  passkeyUnknown:
    'Dieser Passkey ist hier nicht registriert oder die Seite ist abgelaufen. Versuchen Sie es erneut.',
  logInWithPasskey: 'Mit einem Passkey anmelden',
  tooManyAttempts: 'Zu viele Versuche. Versuchen Sie es in {minutes} Minuten erneut.',
  severalUsers:
    'Mehrere Benutzer haben diese E-Mail-Adresse. Wählen Sie die Organisation aus und geben Sie das Passwort erneut ein.',
  wrongPassword: 'Die E-Mail-Adresse oder das Passwort ist falsch.',
  loggedOut: 'Sie wurden abgemeldet.',
  // Second step
  secondFactor: 'Zweiter Faktor',
  enterSecondFactor:
    'Geben Sie den Code aus Ihrer Authentifizierungs-App oder einen Ihrer Wiederherstellungscodes ein.',
  code: 'Code',
  backToUsePasskey: 'Zurück zur Anmeldung, zum Beispiel um einen Passkey zu verwenden',
  wrongCode: 'Der Code ist falsch oder wurde bereits verwendet.',
  // Password reset
  forgotTitle: 'Passwort vergessen?',
  forgotIntro:
    'Geben Sie die E-Mail-Adresse ein, mit der Sie sich anmelden. Sie erhalten eine E-Mail mit einem Link und einem Code, die eine Stunde lang gültig sind.',
  sendLink: 'Link senden',
  cannotSend:
    'Diese Instanz kann keine Links per E-Mail senden. Bitten Sie einen Administrator Ihrer Organisation um einen Link zum Zurücksetzen Ihres Passworts.',
  resetMailed:
    'Falls ein Benutzer mit dieser E-Mail-Adresse existiert, ist eine E-Mail mit einem Link und einem Code unterwegs. Der Link ist eine Stunde lang gültig.',
  resetTitle: 'Passwort zurücksetzen',
  resetIntro:
    'Geben Sie den Code ein, den Sie mit dem Link erhalten haben, und wählen Sie ein Passwort mit mindestens {min} Zeichen. Alle Ihre Sitzungen werden beendet.',
  newPassword: 'Neues Passwort',
  confirmPassword: 'Neues Passwort bestätigen',
  resetPassword: 'Passwort zurücksetzen',
  passwordsDiffer: 'Die neuen Passwörter stimmen nicht überein.',
  passwordReset:
    'Das Passwort wurde geändert. Alle Sitzungen wurden beendet. Melden Sie sich mit dem neuen Passwort an.',
  // Invitation
  acceptTitle: 'Einladung annehmen',
  invitedBy:
    '{inviter} hat Sie eingeladen, als {email} der Organisation <strong>{organization}</strong> beizutreten.',
  invited: 'Sie wurden eingeladen, als {email} der Organisation <strong>{organization}</strong> beizutreten.',
  existingUser: 'Sie haben bereits ein Konto mit dieser E-Mail-Adresse. Geben Sie dessen Passwort ein.',
  choosePassword: 'Wählen Sie ein Passwort mit mindestens {min} Zeichen.',
  unknownInvitation:
    'Sie wurden eingeladen, einer Organisation in diesem CRM beizutreten. Um die Einladung zu sehen, geben Sie den Code ein, den Sie mit dem Link erhalten haben.',
  yourName: 'Ihr Name',
  acceptInvitation: 'Einladung annehmen',
  continue: 'Weiter',
  invitationAccepted: 'Willkommen. Melden Sie sich mit Ihrer E-Mail-Adresse und Ihrem Passwort an.',
  // Email with links that reset passwords
  resetRequested: 'Wir haben eine Anfrage erhalten, das Passwort Ihres Kontos zurückzusetzen.',
  openPageFor: 'Öffnen Sie für {organization} diese Seite:',
  openPage: 'Öffnen Sie diese Seite:',
  enterMailedCode: 'Falls die Seite nach einem Code fragt, geben Sie {code} ein.',
  resetValidity:
    'Jeder Code kann innerhalb einer Stunde einmal verwendet werden. Wenn Sie das nicht angefordert haben, ignorieren Sie diese E-Mail. Ihr Passwort ändert sich nicht.',
  // The user's own page
  you: 'Ihr Konto',
  currentPassword: 'Aktuelles Passwort',
  newPasswordOf: 'Neues Passwort, mindestens {min} Zeichen',
  changePassword: 'Passwort ändern',
  wrongCurrentPassword: 'Das aktuelle Passwort ist falsch.',
  passwordChanged: 'Das Passwort wurde geändert. Alle anderen Sitzungen wurden beendet.',
  protectedByProvider: 'Sie haben sich mit {provider} angemeldet. Das schützt Ihr Konto.',
  protectedByProviderAnd:
    'Sie haben sich mit {provider} angemeldet. Das schützt Ihr Konto zusammen mit einem zweiten Faktor.',
  protectedByBoth: 'Ihr Konto ist durch ein Passwort und einen zweiten Faktor geschützt.',
  protectedByPassword: 'Ihr Konto ist nur durch ein Passwort geschützt.',
  changeSecondFactor: 'Zweiten Faktor ändern',
  setUpSecondFactor: 'Zweiten Faktor einrichten',
  sessions: 'Sitzungen',
  sessionWords: 'Sitzungen',
  noSessions: 'Keine Sitzungen.',
  device: 'Browser oder Client',
  programOn: '{program} unter {system}',
  unknownDevice: 'unbekannt',
  thisSession: '{device} (diese Sitzung)',
  method: 'Angemeldet mit',
  since: 'Seit',
  lastUsed: 'Zuletzt verwendet',
  ends: 'Endet',
  end: 'Beenden',
  endSession: 'Sitzung {id} beenden',
  sessionEnded: 'Sitzung beendet.',
  logOutEverywhere: 'Überall abmelden',
  name: 'Name',
  saveName: 'Namen speichern',
  nameSaved: 'Name gespeichert.',
  language: 'Sprache',
  languageOf: 'Sprache der Seiten und E-Mails',
  languageHelp: 'Feldbezeichnungen und Werte bleiben unverändert.',
  asInBrowser: 'Wie im Browser',
  saveLanguage: 'Sprache speichern',
  languageSaved: 'Sprache gespeichert.',
  organizations: 'Organisationen',
  asProfile: 'als {profile}',
  noOrganizations: 'Sie sind in keiner Organisation Mitglied.',
  showOrganizations: 'Alle {count} Organisationen anzeigen',
} as const satisfies TranslationOf<typeof en>;
