import type { TranslationOf } from '../../../admin-ui/shell/index.ts';
import type en from './en.ts';

/** German texts of the pages for organizations. */
export default {
  // List
  organizations: 'Organisationen',
  rows: 'Organisationen',
  name: 'Name',
  slug: 'Kurzname',
  yourProfile: 'Ihr Profil',
  none: 'Sie sind in keiner Organisation Mitglied.',
  rename: 'Umbenennen',
  renameName: '{name} umbenennen',
  phoneNumbers: 'Telefonnummern',
  phoneNumbersName: 'Telefonnummern von {name}',
  export: 'Exportieren',
  exportName: '{name} exportieren',
  delete: 'Löschen',
  deleteName: '{name} löschen',
  newOrganization: 'Neue Organisation',
  // Messages after an action
  created: '{} angelegt. Sie sind der Administrator.',
  saved: '{} geändert.',
  phoneRegionSaved: 'Telefonnummern von {} geändert.',
  deleted: '{} und alle zugehörigen Daten gelöscht.',
  // Pages
  newIntro: 'Die Organisation ist zunächst leer, und Sie sind ihr Administrator.',
  slugHelp: 'Wird in URLs verwendet. Kleinbuchstaben, Ziffern und Bindestriche.',
  create: 'Organisation anlegen',
  changedSlugHelp:
    'Wird in URLs und in ?org= verwendet. Der alte Kurzname funktioniert weiterhin und bleibt für diese Organisation reserviert.',
  save: 'Organisation speichern',
  deleteOrganization: 'Organisation löschen',
  phoneNumbersOf: 'Telefonnummern von {name}',
  phoneIntro:
    'Filter und Suchen finden eine Telefonnummer mit und ohne Ländervorwahl, wenn das Land der Nummern ohne Vorwahl bekannt ist.',
  country: 'Land',
  countryHelp:
    'Code nach ISO 3166, zum Beispiel DE. Ist das Feld leer, werden Telefonnummern nur anhand ihrer Ziffern verglichen.',
  saveCountry: 'Land speichern',
  deleteQuestion: '{name} löschen?',
  deleteIntro:
    'Wenn Sie die Daten noch einmal benötigen könnten, exportieren Sie die Organisation zuerst. Den Link dafür finden Sie in der Liste der Organisationen.',
  deleteConsequence:
    'Löscht alle Datensätze, Mitglieder, Schlüssel, Integrationen und den Verlauf endgültig, ebenso alle Benutzer mit nicht bestätigten E-Mail-Adressen. Schlüssel werden sofort ungültig.',
  typeSlug: 'Geben Sie „{slug}“ ein',
  // Errors
  cannotCreate: 'Sie können auf dieser Instanz keine Organisationen anlegen.',
  typeSlugToConfirm: 'Geben Sie „{slug}“ ein, um das Löschen zu bestätigen.',
  invalidSlug:
    '„{slug}“ ist kein gültiger Kurzname. Verwenden Sie bis zu 63 Kleinbuchstaben, Ziffern und Bindestriche, ohne Bindestrich am Anfang oder Ende.',
  slugReserved: 'Der Kurzname „{slug}“ ist reserviert. Wählen Sie einen anderen.',
  slugTaken: 'Die Organisation „{slug}“ existiert bereits.',
  slugInConfig:
    'Der Kurzname „{slug}“ kann nicht geändert werden, weil er in config.yaml unter {setting} steht. Ändern Sie zuerst config.yaml.',
  invalidCountry:
    '„{code}“ ist nach ISO 3166 kein Code eines Landes mit Telefonnummern. Verwenden Sie einen Code wie DE.',
  stillWritten: 'In der Organisation werden noch Daten geändert. Versuchen Sie es erneut.',
} as const satisfies TranslationOf<typeof en>;
