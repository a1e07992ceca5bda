/**
 * Names that columns of exported contact lists, spreadsheets and address books often have, in English and German, keyed by the
 * name of the field that contains such values.
 */
const otherNames: Readonly<Record<string, readonly string[]>> = {
  first_name: ['given name', 'forename', 'vorname'],
  last_name: ['surname', 'family name', 'nachname', 'familienname', 'zuname'],
  name: ['full name', 'bezeichnung', 'title', 'titel'],
  company: ['organization', 'organisation', 'account name', 'firma', 'firmenname', 'unternehmen'],
  email: ['e-mail', 'email address', 'e-mail address', 'mail', 'e-mail-adresse', 'mailadresse'],
  phone: [
    'telephone',
    'phone number',
    'tel',
    'mobile',
    'telefon',
    'telefonnummer',
    'rufnummer',
    'handy',
    'mobil',
  ],
  website: ['url', 'web', 'homepage', 'webseite', 'internetseite'],
  address: ['street', 'street address', 'straße', 'strasse', 'anschrift', 'adresse'],
  city: ['town', 'ort', 'stadt', 'wohnort'],
  state: ['region', 'province', 'county', 'bundesland'],
  postal_code: ['zip', 'zip code', 'postcode', 'plz', 'postleitzahl'],
  country: ['land', 'staat'],
  industry: ['sector', 'branche'],
  description: ['notes', 'note', 'comment', 'comments', 'beschreibung', 'notiz', 'notizen', 'bemerkung'],
  title: ['job title', 'position', 'funktion', 'berufsbezeichnung'],
  amount: ['value', 'deal value', 'betrag', 'summe', 'wert'],
  close_date: ['closing date', 'expected close', 'abschlussdatum'],
  source: ['lead source', 'quelle', 'herkunft'],
  rating: ['bewertung'],
  subject: ['betreff', 'thema'],
};

/** Returns the names under which other programs export a field's values. */
export const otherNamesOf = (field: string): readonly string[] => otherNames[field] ?? [];
