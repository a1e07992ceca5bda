import type { TranslationOf } from '../../../admin-ui/shell/index.ts';
import type en from './en.ts';

/** German texts of the pages for API keys. */
export default {
  apiKeys: 'API-Schlüssel',
  createKey: 'API-Schlüssel anlegen',
  keysExpire: {
    one: '{count} API-Schlüssel läuft innerhalb von zwei Wochen ab.',
    other: '{count} API-Schlüssel laufen innerhalb von zwei Wochen ab.',
  },
  showKeys: 'Schlüssel anzeigen',
  keyExpires: 'Der API-Schlüssel {key} läuft am {time} ab.',
  rotate: 'Rotieren',
  rotateKey: '{name} rotieren',
  // List
  rows: 'Schlüssel',
  live: 'Aktiv',
  expired: 'Abgelaufen',
  revoked: 'Widerrufen',
  all: 'Alle',
  name: 'Name',
  key: 'Schlüssel',
  profile: 'Profil',
  onBehalfOf: 'Im Namen von',
  created: 'Angelegt',
  lastUsed: 'Zuletzt verwendet',
  never: 'nie',
  state: 'Status',
  stateLive: 'aktiv',
  stateLiveExpires: 'aktiv, läuft ab',
  stateExpired: 'abgelaufen',
  stateRevoked: 'widerrufen',
  none: 'Mit einem API-Schlüssel kann ein Programm die Datensätze lesen und ändern, die sein Profil erlaubt.',
  missing: 'Der Schlüssel {id} existiert in dieser Organisation nicht.',
  readOnlyListed: 'nur lesen',
  proposeListed: 'schlägt Änderungen vor',
  // Access
  access: 'Zugriff',
  accessHelp:
    'Bei „Lesen und vorschlagen“ muss ein Mensch jede Änderung eines Agenten genehmigen, und mit der API kann nur gelesen werden.',
  readOnly: 'Nur lesen',
  propose: 'Lesen und vorschlagen',
  write: 'Lesen und schreiben',
  chooseAccess: 'Wählen Sie aus, was der Schlüssel kann.',
  // Create
  create: 'Schlüssel anlegen',
  nameHelp: 'Das Programm, das den Schlüssel verwendet, zum Beispiel „Website“.',
  profileHelp: 'Legt fest, was das Programm tun kann.',
  onBehalfOfHelp:
    'Optional. Der Schlüssel kann nur, was sowohl sein Profil als auch das Profil dieses Mitglieds erlaubt, und endet mit der Mitgliedschaft.',
  nobody: 'Niemand',
  expires: 'Läuft ab',
  inDays: { one: 'in {count} Tag', other: 'in {count} Tagen' },
  inAYear: 'in einem Jahr',
  chooseExpiry: 'Wählen Sie aus, wann der Schlüssel abläuft.',
  cannotDelegate:
    'Um einen Schlüssel im Namen eines Mitglieds anzulegen, benötigen Sie das Recht members:update.',
  notMember: 'Der Schlüssel kann nur im Namen eines Mitglieds dieser Organisation verwendet werden.',
  quotaReached:
    'Die Organisation hat ihr Limit von {quota} API-Schlüsseln erreicht. Widerrufen Sie einen nicht verwendeten Schlüssel.',
  createdTitle: '{name} angelegt',
  copyNow: 'Kopieren Sie den Schlüssel jetzt. Er wird nicht noch einmal angezeigt.',
  apiKey: 'API-Schlüssel',
  copyKey: 'Schlüssel kopieren',
  // Rotate
  rotateQuestion: '{key} rotieren?',
  rotateConsequence:
    'Legt einen neuen Schlüssel mit demselben Namen, Profil, Zugriff und Ablaufdatum an. Der alte Schlüssel bleibt noch eine Zeit lang gültig, damit Programme auf den neuen Schlüssel umgestellt werden können.',
  overlap: 'Alten Schlüssel gültig lassen für',
  hour: '1 Stunde',
  day: '1 Tag',
  sevenDays: '7 Tage',
  rotateSubmit: 'Schlüssel rotieren',
  chooseOverlap: 'Wählen Sie aus, wie lange der alte Schlüssel gültig bleibt.',
  notLive: 'Dieser Schlüssel existiert nicht oder ist nicht aktiv.',
  // Revoke
  revoke: 'Widerrufen',
  revokeName: '{name} widerrufen',
  revokeQuestion: '{key} widerrufen?',
  revokeConsequence:
    'Programme, die ihn verwenden, erhalten sofort 401. Ein widerrufener Schlüssel kann nicht wiederhergestellt werden.',
  revokeSubmit: 'Schlüssel widerrufen',
  keyRevoked: '{} widerrufen. Alle Knoten lehnen ihn innerhalb einer Sekunde ab.',
  alreadyRevoked: 'Der Schlüssel {id} wurde bereits widerrufen.',
} as const satisfies TranslationOf<typeof en>;
