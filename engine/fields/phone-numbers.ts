// Phone numbers in the notations of a country: national, with the country code, or with an international prefix.

import { createRequire } from 'node:module';
import { lookupOf } from './type.ts';

const { keyOf: digitsOf } = lookupOf('digits');

/** Maximum length of a phone number that is converted to other notations, in UTF-16 code units. */
const maxLength = 40;

// Loaded on first use, because the numbering plans of all countries take 60 ms and most organizations do not need them.
let library: typeof import('libphonenumber-js/min') | undefined;
const phoneLibrary = (): typeof import('libphonenumber-js/min') => {
  library ??= createRequire(import.meta.url)('libphonenumber-js/min') as NonNullable<typeof library>;
  return library;
};

/** A country or territory with a numbering plan, as an ISO 3166 code in uppercase. */
type Region = import('libphonenumber-js/min').CountryCode;

const isRegion = (code: string): code is Region => phoneLibrary().isSupportedCountry(code);

/** Returns the ISO 3166 code in uppercase, or undefined if it is not the code of a country with a numbering plan. */
export function phoneRegionOf(code: string): string | undefined {
  const region = code.toUpperCase();
  return /^[a-z]{2}$/i.test(code) && isRegion(region) ? region : undefined;
}

/**
 * Returns the notations of a phone number that differ in their digits, as digits. Every notation of the number returns the
 * same list. Returns only the text itself if it is not a complete number in the region or in another country.
 * @param region the country whose numbers are written without a country code, as returned by {@link phoneRegionOf}
 */
export function phoneVariants(text: string, region: string): readonly string[] {
  if (text.length > maxLength || !isRegion(region)) return [text];
  const digits = digitsOf(text);
  // The digits of an international number are the same without "+", which is therefore optional.
  for (const number of [text, `+${digits}`]) {
    const variants = notationsOf(number, region);
    if (variants.includes(digits)) return variants;
  }
  return [text];
}

/** Returns the digits of the notations of a number; none if it is not complete. */
function notationsOf(text: string, region: Region): readonly string[] {
  const parse = (number: string) =>
    phoneLibrary().parsePhoneNumberFromString(number, { defaultCountry: region });
  const phone = parse(text);
  // With an extension, other people have the same number.
  if (!phone?.isPossible() || phone.ext !== undefined) return [];
  const national = phone.formatNational().replace(/\D/g, '');
  const notations = [
    national,
    // "+49 (0)171 1234567"
    `+${phone.countryCallingCode}${national}`,
    // Undefined in countries with several international prefixes.
    phone.format('IDD', { fromCountry: region }) ?? '',
  ].filter((notation) => parse(notation)?.number === phone.number);
  return [...new Set([phone.number, ...notations].map(digitsOf))];
}
