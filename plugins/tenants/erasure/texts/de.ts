import type { TranslationOf } from '../../../admin-ui/shell/index.ts';
import type en from './en.ts';

/** German texts of the pages that erase a person. */
export default {
  erasePerson: 'Person löschen',
  // List
  rows: 'Löschungen nach Administrator',
  when: 'Wann',
  by: 'Durch',
  commandLine: 'Befehlszeile',
  none: 'Noch keine Löschungen.',
  // Form
  formIntro: 'Die nächste Seite zeigt die gefundenen Daten der Person, bevor etwas gelöscht wird.',
  records: 'Datensätze der Person',
  recordsHelp: 'Eine Ressource mit Filter pro Zeile',
  recordsExample: 'Eine Ressource mit Filter pro Zeile, zum Beispiel {example}',
  searchTerms: 'Suchbegriffe, die nur zu dieser Person gehören',
  searchTermsHelp:
    'Eine E-Mail-Adresse, eine Telefonnummer oder ein Name pro Zeile. Sie werden in den Daten gesucht, die Partner gesendet haben.',
  findData: 'Daten suchen',
  nothingFound: 'Es wurden keine Daten dieser Person gefunden.',
  // Confirmation
  question: 'Diese Person löschen?',
  consequence:
    'Löscht die Datensätze der Person, ihre Einträge im Änderungsprotokoll und alles Empfangene und Gesendete mit diesen Suchbegriffen endgültig.',
  consequenceOf:
    'Löscht die Datensätze der Person, ihre Einträge im Änderungsprotokoll und alles Empfangene und Gesendete mit {terms} endgültig.',
  backups: 'Backups enthalten die Daten, bis sie gelöscht werden.',
  unchanged: 'Diese Datensätze erwähnen die Person und bleiben unverändert: {mentions}.',
  recordId: 'Datensatz {id}',
  recordIds: 'Datensätze {ids}',
  changes: 'Einträge im Änderungsprotokoll',
  sentEvents: 'Anfragen und Antworten gesendeter Ereignisse',
  hookErrors: 'Fehler von Hooks',
  proposals: 'Vorschläge von Agenten',
  storedResponses: 'gespeicherte Antworten',
  integrationEvents: 'Ereignisse von Integrationen',
  jobs: 'Aufträge',
  merges: 'Zusammenführungen',
  receivedMessages: 'empfangene Nachrichten',
  notes: 'Notizen',
  outgoingMessages: 'gesendete Nachrichten',
  paymentEvents: 'Zahlungsereignisse',
  savedViews: 'gespeicherte Ansichten',
  erased: 'gelöscht',
  word: 'löschen',
  typeWord: 'Geben Sie „{word}“ ein',
  typeToConfirm: 'Geben Sie „{word}“ ein, um das Löschen zu bestätigen.',
  erasePermanently: 'Endgültig löschen',
  // Progress
  personErased: 'Person gelöscht',
  allErased: 'Alle gefundenen Daten dieser Person wurden gelöscht.',
  back: 'Zurück',
  searching: 'Suche läuft …',
  erasing: 'Löschen läuft …',
  readOnly:
    'Diese Instanz ist schreibgeschützt. Die Suche oder das Löschen wird fortgesetzt, sobald Änderungen wieder möglich sind.',
  refreshes: 'Diese Seite wird automatisch aktualisiert. Sie können sie verlassen und später zurückkommen.',
  rowsSearched: 'Durchsuchte Zeilen',
  refreshPage: 'Seite aktualisieren',
  cancelSearch: 'Suche abbrechen',
  searchCanceled: 'Suche abgebrochen.',
  // Errors
  about: '{field}: {message}',
  tooManyActive:
    'Diese Organisation hat bereits {max} laufende Suchen oder Löschungen. Warten Sie, bis eine davon beendet ist.',
  expired: 'Diese Suche ist abgelaufen. Starten Sie sie erneut.',
  alreadyStarted: 'Diese Suche ist abgelaufen, oder das Löschen hat bereits begonnen.',
  valueTooLarge: 'Ein gespeicherter Wert ist zu groß, um durchsucht zu werden.',
  tooManyTermsFound:
    'Für die Suche wären mehr als {max} Suchbegriffe nötig. Wählen Sie weniger Datensätze aus.',
  tooManyLines: 'Höchstens {max} Zeilen können Datensätze auswählen. Eingegeben wurden {number}.',
  tooManyTerms: 'Höchstens {max} Suchbegriffe sind möglich. Eingegeben wurden {number}.',
  lineTooLong: 'Eine Zeile, die Datensätze auswählt, kann höchstens {max} Zeichen lang sein.',
  nothingEntered:
    'Geben Sie die Datensätze der Person in der Form „ressource?filter=wert“ ein oder einen Suchbegriff, der nur zu dieser Person gehört.',
  invalidSelection:
    '„{selection}“ ist keine Ressource mit Filter in der Form „ressource?filter=wert“. Ressourcen: {resources}.',
  unknownFilter: '„{filter}“ ist kein Filter von {resource}. Filter: {filters}.',
  tooManyRecords:
    'Ausgewählt sind mehr als {max} Datensätze. Wählen Sie nur die Datensätze einer Person aus.',
  termTooShort: '„{text}“ ist zu kurz. Geben Sie mindestens {min} Zeichen ein.',
  termTooLong: '„{text}“ ist zu lang. Geben Sie höchstens {max} Zeichen ein.',
  tooManyDependents: 'Mit {record} würden mehr als {max} Datensätze gelöscht.',
} as const satisfies TranslationOf<typeof en>;
