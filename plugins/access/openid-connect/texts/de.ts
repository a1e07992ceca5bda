import type { TranslationOf } from '../../../admin-ui/shell/index.ts';
import type en from './en.ts';

/** German texts of the login with a provider. */
export default {
  logInWith: 'Mit {provider} anmelden',
  unreachable:
    '{provider} ist nicht erreichbar. Versuchen Sie es erneut oder melden Sie sich mit Ihrem Passwort an.',
  rejected:
    '{provider} hat Sie nicht angemeldet. Versuchen Sie es erneut oder melden Sie sich mit Ihrem Passwort an.',
  invalidResponse:
    'Die Antwort von {provider} ist ungültig. Versuchen Sie es erneut oder melden Sie sich mit Ihrem Passwort an.',
  stale:
    'Diese Anmeldung wurde in einem anderen Browser begonnen, bereits abgeschlossen oder hat länger als zehn Minuten gedauert. Versuchen Sie es erneut.',
  readOnly:
    'Diese Instanz ist schreibgeschützt, daher kann {provider} jetzt nicht verknüpft werden. Versuchen Sie es später erneut.',
  unverified:
    '{provider} hat Ihre E-Mail-Adresse nicht bestätigt, daher kann sie mit keinem Benutzer verknüpft werden.',
  alreadyLinked:
    'Sie sind bereits mit einer anderen Anmeldung bei {provider} verknüpft. Der Betreiber dieser Instanz kann diese Verknüpfung entfernen.',
  disabled: 'Ihr Benutzer ist deaktiviert. Wenden Sie sich an den Betreiber dieser Instanz.',
  severalUsers:
    'Mehrere Benutzer haben die E-Mail-Adresse {email}, und {provider} hat nicht angegeben, welcher davon Sie sind. Setzen Sie bei einem davon das Passwort zurück, um ihn zu bestätigen, oder wenden Sie sich an den Betreiber dieser Instanz.',
  notRegistered:
    '{email} ist hier nicht registriert. Bitten Sie einen Administrator Ihrer Organisation um eine Einladung.',
} as const satisfies TranslationOf<typeof en>;
