import { plainName } from '../../../engine/records/index.ts';

/**
 * Titles with the same meaning, in English and German, that columns have in exported contact lists, spreadsheets and address
 * books.
 */
const sameMeaning: readonly (readonly string[])[] = [
  ['First name', 'Given name', 'Forename', 'Vorname'],
  ['Last name', 'Surname', 'Family name', 'Nachname', 'Familienname', 'Zuname'],
  ['Name', 'Full name', 'Bezeichnung'],
  ['Company', 'Organization', 'Organisation', 'Firma', 'Firmenname', 'Unternehmen'],
  ['Email', 'Email address', 'Mail', 'E-Mail-Adresse', 'Mailadresse'],
  ['Phone', 'Telephone', 'Phone number', 'Tel', 'Telefon', 'Telefonnummer', 'Rufnummer'],
  ['Mobile', 'Mobile phone', 'Cell phone', 'Handy', 'Mobil', 'Mobiltelefon'],
  ['Website', 'Homepage', 'Web', 'Webseite', 'Internetseite'],
  ['Address', 'Street', 'Street address', 'Straße', 'Strasse', 'Anschrift', 'Adresse'],
  ['City', 'Town', 'Ort', 'Stadt', 'Wohnort'],
  ['State', 'Region', 'Province', 'County', 'Bundesland'],
  ['Postal code', 'Postcode', 'Zip', 'Zip code', 'PLZ', 'Postleitzahl'],
  ['Country', 'Land', 'Staat'],
  ['Industry', 'Sector', 'Branche'],
  ['Description', 'Notes', 'Comment', 'Comments', 'Beschreibung', 'Notiz', 'Notizen', 'Bemerkung'],
  ['Title', 'Job title', 'Position', 'Funktion', 'Berufsbezeichnung'],
  ['Amount', 'Value', 'Deal value', 'Betrag', 'Summe', 'Wert'],
  ['Source', 'Quelle', 'Herkunft'],
  ['Subject', 'Betreff', 'Thema'],
];
const groups = sameMeaning.map((titles) => titles.map(plainName));

/** Returns the titles under which other programs export the values of a field with this name or label. */
export const otherNamesOf = (names: readonly string[]): readonly string[] => {
  const own = names.map(plainName);
  return groups.filter((titles) => own.some((name) => titles.includes(name))).flat();
};
