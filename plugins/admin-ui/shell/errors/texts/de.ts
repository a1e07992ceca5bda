import type { TranslationOf } from '../../catalogue.ts';
import type en from './en.ts';

/** German texts of errors. A text about a value is a sentence, which appears beside the field. */
export default {
  // Values
  required: 'Geben Sie einen Wert ein.',
  characters: 'Der Wert enthält Zeichen, die nicht gespeichert werden können.',
  invalid: 'Der Wert ist ungültig.',
  min: 'Geben Sie mindestens {limit} ein.',
  max: 'Geben Sie höchstens {limit} ein.',
  minLength: {
    one: 'Geben Sie mindestens {count} Zeichen ein.',
    other: 'Geben Sie mindestens {count} Zeichen ein.',
  },
  maxLength: {
    one: 'Geben Sie höchstens {count} Zeichen ein.',
    other: 'Geben Sie höchstens {count} Zeichen ein.',
  },
  maxItems: { one: 'Geben Sie höchstens {count} Wert ein.', other: 'Geben Sie höchstens {count} Werte ein.' },
  pattern: 'Der Wert entspricht nicht dem Muster {pattern}.',
  closed: 'Wählen Sie einen dieser Werte: {values}.',
  boolean: 'Geben Sie true oder false ein.',
  country: 'Geben Sie einen Ländercode nach ISO 3166 ein, zum Beispiel DE.',
  currency: 'Geben Sie einen Währungscode nach ISO 4217 ein, zum Beispiel EUR.',
  customValues: 'Die Werte der eigenen Felder sind ungültig oder zu groß.',
  date: 'Geben Sie ein Datum ein, zum Beispiel 2026-03-01.',
  document: 'Geben Sie ein gültiges JSON-Objekt oder -Array mit höchstens 64 KiB ein.',
  email: 'Geben Sie eine gültige E-Mail-Adresse ein.',
  timeZone: 'Geben Sie eine IANA-Zeitzone ein, zum Beispiel Europe/Berlin.',
  iban: 'Geben Sie eine gültige IBAN ein.',
  wholeNumber: 'Geben Sie eine ganze Zahl ein.',
  integer: 'Geben Sie eine ganze Zahl von {min} bis {max} ein.',
  list: 'Die Liste enthält ungültige Werte.',
  member: 'Wählen Sie ein Mitglied der Organisation aus.',
  money: 'Geben Sie einen Betrag ein, zum Beispiel 12.50 {currency}.',
  number: 'Geben Sie eine Zahl ein.',
  phone: 'Geben Sie eine gültige Telefonnummer ein.',
  record: 'Wählen Sie einen Datensatz aus.',
  recordOf: 'Wählen Sie einen Datensatz aus: {resources}.',
  references: 'Wählen Sie höchstens {max} Datensätze aus.',
  string: 'Geben Sie einen Text ein.',
  textUpTo: 'Jeder Text darf höchstens {max} Zeichen haben.',
  timestamp: 'Geben Sie Datum und Uhrzeit ein, zum Beispiel 2026-03-01T09:30:00+01:00.',
  url: 'Geben Sie eine URL ein, die mit http:// oder https:// beginnt.',
  missingRecord: 'Der Datensatz {id} existiert nicht.',
  notMember: 'Diese Person ist kein Mitglied der Organisation.',
  duplicate: 'Ein anderer Datensatz hat denselben Wert.',
  duplicateCombination: 'Ein anderer Datensatz hat in diesen Feldern dieselben Werte.',
  transition: 'Eine Änderung von „{previous}“ in „{value}“ ist nicht möglich.',
  transitionFromNone: 'Solange das Feld leer ist, ist eine Änderung in „{value}“ nicht möglich.',
  transitionToNone: 'Der Wert „{previous}“ kann nicht entfernt werden.',
  newValue: 'Ein neuer Datensatz kann nicht den Wert „{value}“ haben.',
  newWithoutValue: 'Ein neuer Datensatz benötigt hier einen Wert.',
  allowed: 'Möglich: {values}.',
  noneAllowed: 'Der Wert kann nicht geändert werden.',
  // Errors of the API
  invalidRequest: 'Die Anfrage ist ungültig.',
  failed: 'Es ist ein Fehler aufgetreten. Versuchen Sie es später erneut.',
  about: '{field}: {message}',
  moreIssues: 'Es gibt {count} weitere Fehler.',
  recordsRejected: {
    one: '1 Datensatz wurde abgelehnt: {message}',
    other: '{count} Datensätze wurden abgelehnt, der erste aus diesem Grund: {message}',
  },
  invalidCsv: 'Die Datei ist keine gültige CSV-Datei in UTF-8.',
  lineTooLong: 'Die Zeile ist länger als {limit} Bytes.',
  customFieldExists: 'Das eigene Feld „{name}“ existiert bereits. Wählen Sie einen anderen Namen.',
  customFieldDeleted:
    'Das eigene Feld „{name}“ existiert bereits. Es wurde gelöscht und kann wiederhergestellt werden.',
  customFieldsTooLarge:
    'Die Eigenschaften der eigenen Felder für {resource}, auch der gelöschten, würden zusammen {limit} Bytes überschreiten. Kürzen Sie Hilfetexte oder Wertelisten.',
  ambiguousMatch:
    'Mehrere Datensätze haben in unterschiedlicher Schreibweise denselben Wert: {fields}. Führen Sie diese Datensätze zusammen oder ändern Sie die Telefonnummer bei allen bis auf einen.',
  duplicateInFile: 'Mehrere Datensätze haben denselben Wert: {fields}.',
  locked: 'Dieser Datensatz ist gesperrt und kann nicht geändert werden.',
  rejectedByDatabase: 'Die Datenbank hat den Datensatz abgelehnt: {constraint}.',
  forbidden: 'Ihr Profil enthält das Recht {object}:{action} nicht.',
  outsideScope:
    'Der Datensatz läge außerhalb des Bereichs, für den Ihr Profil dieses Recht gewährt. Dafür benötigen Sie das Recht {object}:{action}.',
  notPermitted: 'Sie sind dazu nicht berechtigt.',
  recordQuota:
    'Die Organisation hat ihr Limit von {limit} Datensätzen erreicht. Löschen Sie Datensätze oder bitten Sie den Betreiber dieser Instanz um ein höheres Limit.',
  storageQuota:
    'Die Organisation hat ihr Limit von {limit} MB für Datensätze erreicht. Löschen Sie Datensätze oder bitten Sie den Betreiber dieser Instanz um ein höheres Limit.',
  customFieldQuota:
    'Die Organisation hat ihr Limit von {limit} eigenen Feldern für {resource} erreicht. Gelöschte Felder zählen mit. Bitten Sie den Betreiber dieser Instanz um ein höheres Limit.',
  notAMember: 'Sie sind kein Mitglied dieser Organisation.',
  expiredForm:
    'Dieses Formular ist abgelaufen oder wurde von einer anderen Website gesendet. Gehen Sie zurück, laden Sie die Seite neu und versuchen Sie es erneut.',
  pageNotFound: 'Seite nicht gefunden.',
  recordNotFound: 'Dieser Datensatz existiert in Ihrer Organisation nicht.',
  methodNotAllowed: 'Diese Methode ist nicht möglich.',
  tooSlowRequest: 'Die Anfrage wurde zu langsam gesendet.',
  stillRunning: 'Dieses Formular wird bereits verarbeitet.',
  referenced:
    'Dieser Datensatz kann nicht gelöscht werden, weil andere Datensätze auf ihn verweisen. Löschen Sie zuerst diese Datensätze oder ändern Sie ihre Verweise.',
  cascadeTooLarge:
    'Dabei würden mehr als {count} Datensätze gelöscht. Löschen Sie zuerst einige der davon abhängigen Datensätze.',
  mergeTooLarge:
    'Mehr als {count} Datensätze verweisen auf den anderen Datensatz. Ändern Sie zuerst einige der Verweise.',
  mergeConflict:
    'Mehrere Datensätze in {resource} hätten dieselben eindeutigen Werte. Löschen oder ändern Sie zuerst einen davon.',
  mergeConflictIn:
    'Mehrere Datensätze in {resource} hätten denselben Wert: {fields}. Löschen oder ändern Sie zuerst einen davon.',
  mergeNotUndoable: 'Die Zusammenführung kann nicht rückgängig gemacht werden: {reason}.',
  recordNotInTrash: 'Der Datensatz {id} liegt nicht im Papierkorb',
  recordExists: 'Der Datensatz {id} existiert',
  mergeTooOld: 'Die Datensätze wurden nicht in den letzten {days} Tagen zusammengeführt',
  fieldsChanged: 'Die Felder von {resource} wurden seitdem geändert',
  fieldsNotWritable: 'Sie hat Felder geändert, die Sie nicht ändern dürfen',
  referenceMissing: 'Ein Datensatz, auf den der andere verweist, existiert nicht mehr',
  bulkTooLarge: 'Die Filter finden mehr als {count} Datensätze. Fügen Sie Filter hinzu.',
  countChanged: 'Die Anzahl der gefilterten Datensätze hat sich geändert.',
  changed: 'Der Datensatz wurde inzwischen geändert.',
  formTooLarge: 'Das Formular ist zu groß.',
  tooManyAttempts: 'Zu viele Versuche. Versuchen Sie es später erneut.',
  rateLimited: 'Zu viele Anfragen. Versuchen Sie es später erneut.',
  tooManyJobs:
    '{limit} Aufträge der Organisation warten bereits. Warten Sie, bis einige beendet sind, oder brechen Sie sie ab.',
  jobInputErased: 'Die Eingabe des Auftrags wurde gelöscht.',
  importInterrupted: {
    one: 'Der Import wurde unterbrochen, nachdem mindestens {count} Zeile verarbeitet wurde. Bereits angelegte oder aktualisierte Datensätze bleiben erhalten. Prüfen Sie die Liste, bevor Sie den Rest der Datei importieren.',
    other:
      'Der Import wurde unterbrochen, nachdem mindestens {count} Zeilen verarbeitet wurden. Bereits angelegte oder aktualisierte Datensätze bleiben erhalten. Prüfen Sie die Liste, bevor Sie den Rest der Datei importieren.',
  },
  importInterruptedAtStart:
    'Der Import wurde unterbrochen. Bereits angelegte oder aktualisierte Datensätze bleiben erhalten. Prüfen Sie die Liste, bevor Sie den Rest der Datei importieren.',
  importTooSlow:
    'Der Import hat länger als {minutes} Minuten gedauert. Bereits angelegte oder aktualisierte Datensätze bleiben erhalten.',
  database: 'Die Datenbank hat nicht wie erwartet geantwortet.',
  overloaded: 'Der Server ist ausgelastet. Versuchen Sie es erneut.',
  tooSlow: 'Die Anfrage hat zu lange gedauert.',
  shuttingDown: 'Der Server wird gerade beendet.',
  readOnly: 'Diese Instanz ist während der Wartung schreibgeschützt. Versuchen Sie es später erneut.',
  // Names, users and passwords
  nameLength: 'Der Name muss 1 bis {max} Zeichen lang sein.',
  nameCharacters:
    'Der Name darf keine Zeilenumbrüche, Steuerzeichen oder Zeichen enthalten, die die Textrichtung ändern (gefunden: {character}).',
  passwordLength: 'Das Passwort muss {min} bis {max} Zeichen lang sein.',
  passwordLikeUser: 'Das Passwort darf nicht die E-Mail-Adresse oder der Name des Benutzers sein.',
  passwordTooCommon: 'Dieses Passwort ist zu verbreitet. Wählen Sie ein anderes.',
  invalidEmail: 'Das ist keine gültige E-Mail-Adresse.',
  userExists: 'Ein Benutzer mit der E-Mail-Adresse {email} existiert bereits.',
  userJustAdded: '{email} wurde gerade durch eine andere Anfrage hinzugefügt. Versuchen Sie es erneut.',
  alreadyMember: '{email} ist bereits Mitglied dieser Organisation.',
  unusableLink:
    'Dieser Link kann nicht verwendet werden: Der Code ist falsch, oder der Link ist abgelaufen oder wurde bereits verwendet.',
  memberMissing: 'Dieses Mitglied existiert nicht.',
  verifiedUser:
    'Administratoren können das Passwort eines Benutzers mit bestätigter E-Mail-Adresse nicht zurücksetzen. Der Benutzer kann „Passwort vergessen?“ verwenden oder sich an den Betreiber dieser Instanz wenden.',
  userDisabled: 'Dieser Benutzer ist deaktiviert.',
  // Titles of error pages
  badRequest: 'Ungültige Anfrage',
  forbiddenTitle: 'Kein Zugriff',
  notFoundTitle: 'Nicht gefunden',
  conflict: 'Konflikt',
  payloadTooLarge: 'Zu groß',
  tooManyRequests: 'Zu viele Anfragen',
  internalError: 'Fehler auf dem Server',
  unavailable: 'Derzeit nicht verfügbar',
} as const satisfies TranslationOf<typeof en>;
