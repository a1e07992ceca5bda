import type { TranslationOf } from '../../../admin-ui/shell/index.ts';
import type en from './en.ts';

/** German texts of the pages for second factors. */
export default {
  secondFactor: 'Zweiter Faktor',
  you: 'Ihr Konto',
  logInAgain:
    'Melden Sie sich erneut an. Zweite Faktoren können nur innerhalb von {minutes} Minuten nach der Anmeldung geändert werden.',
  appAdded: 'Authentifizierungs-App eingerichtet. Alle anderen Sitzungen wurden beendet.',
  appRemoved: 'Authentifizierungs-App entfernt.',
  passkeyAdded: '{} hinzugefügt. Alle anderen Sitzungen wurden beendet.',
  passkeyRemoved: '{} entfernt.',
  required: 'Diese Instanz verlangt einen zweiten Faktor. Richten Sie einen ein, um fortzufahren.',
  intro: 'Mit einem zweiten Faktor kann sich niemand allein mit Ihrem Passwort anmelden.',
  app: 'Authentifizierungs-App',
  setUp: 'Eingerichtet',
  notSetUp: 'Nicht eingerichtet',
  passkey: 'Passkey',
  passkeyLastUsed: '{name}, zuletzt verwendet',
  codesLeft: 'Verbleibende Wiederherstellungscodes',
  replaceApp: 'Authentifizierungs-App ersetzen',
  setUpApp: 'Authentifizierungs-App einrichten',
  addPasskey: 'Passkey hinzufügen',
  remove: '{name} entfernen',
  newCodes: 'Neue Wiederherstellungscodes',
  removeApp: 'Authentifizierungs-App entfernen',
  cancel: 'Abbrechen',
  // Authenticator app
  scan: 'Scannen Sie diesen Code mit einer Authentifizierungs-App oder einem Passwortmanager. Geben Sie dann den sechsstelligen Code ein, der dort angezeigt wird.',
  qrCode: 'QR-Code für die Authentifizierungs-App',
  enterKey: 'Wenn Sie den Code nicht scannen können, geben Sie diesen Schlüssel ein:',
  code: 'Code',
  appExpired: 'Die Seite ist abgelaufen. Scannen Sie den neuen Code.',
  wrongCode:
    'Der Code ist falsch. Geben Sie den Code ein, den die App gerade anzeigt, und prüfen Sie die Uhrzeit des Geräts.',
  removeAppQuestion: 'Authentifizierungs-App entfernen?',
  removeAppConsequence: 'Ihre Codes funktionieren dann nicht mehr. Alle anderen Sitzungen werden beendet.',
  // Passkeys
  passkeyIntro:
    'Ein Passkey wird auf diesem Gerät, auf einem Sicherheitsschlüssel oder in einem Passwortmanager gespeichert. Sie verwenden ihn anstelle von Passwort und Code.',
  name: 'Name',
  nameHelp: 'Wo der Passkey gespeichert ist, zum Beispiel „Laptop“.',
  passkeyFailed: 'Ihr Browser konnte keinen Passkey erstellen. Versuchen Sie es erneut.',
  needsJavaScript: 'Passkeys erfordern JavaScript. Authentifizierungs-Apps funktionieren ohne.',
  needsDomain:
    'Browser erstellen Passkeys nur für Domainnamen, aber Sie haben diese Seite über eine IP-Adresse geöffnet. Fragen Sie den Betreiber dieser Instanz nach einem Domainnamen.',
  back: 'Zurück',
  invalidPasskey: 'Der Passkey ist ungültig oder die Seite ist abgelaufen. Versuchen Sie es erneut.',
  removeQuestion: '{name} entfernen?',
  removePasskeyConsequence:
    'Sie können sich dann nicht mehr mit diesem Passkey anmelden. Alle anderen Sitzungen werden beendet.',
  removePasskey: 'Passkey entfernen',
  // Recovery codes
  recoveryCodes: 'Wiederherstellungscodes',
  newCodesQuestion: 'Neue Wiederherstellungscodes?',
  newCodesConsequence: 'Ihre bisherigen Codes funktionieren dann nicht mehr.',
  createCodes: 'Wiederherstellungscodes erstellen',
  factorAdded: 'Zweiter Faktor eingerichtet. Alle anderen Sitzungen wurden beendet.',
  saveCodes: 'Speichern Sie diese Codes',
  saveCodesIntro:
    'Sie werden nicht noch einmal angezeigt. Jeder Code ersetzt den zweiten Faktor bei einer Anmeldung, zum Beispiel wenn Sie Ihr Gerät verlieren.',
  copyCodes: 'Codes kopieren',
  codesSaved: 'Ich habe sie gespeichert',
  passkeyRegistered: 'Dieser Passkey ist bereits registriert.',
} as const satisfies TranslationOf<typeof en>;
