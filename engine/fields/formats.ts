import type { Lookup } from './type.ts';

/** A format of text: what is valid, and how values are compared. Values are stored as sent. */
interface TextFormat {
  /** Completes "must be …". */
  readonly expected: string;
  readonly isValid: (text: string) => boolean;
  /** POSIX regular expression that every valid value matches, for the table's constraint. */
  readonly shape: string;
  /** How filters, unique fields and `match` compare values. */
  readonly comparison: Lookup;
  /** Value of `format` in JSON Schema. */
  readonly json: string;
  readonly examples: readonly string[];
}

/** Maximum length of an email address (RFC 5321, section 4.5.3.1.3). */
const maxEmail = 254;
/** Minimum and maximum number of digits of a phone number (ITU-T E.164), including short numbers. */
const [minDigits, maxDigits] = [3, 15];

/** ISO 4217 codes, including former currencies. */
export const currencyCodes: readonly string[] = Intl.supportedValuesOf('currency');
const currencies: ReadonlySet<string> = new Set(currencyCodes);
/** ISO 3166-1 alpha-2. */
const countries: ReadonlySet<string> = new Set(
  'AD AE AF AG AI AL AM AO AQ AR AS AT AU AW AX AZ BA BB BD BE BF BG BH BI BJ BL BM BN BO BQ BR BS BT BV BW BY BZ CA CC CD CF CG CH CI CK CL CM CN CO CR CU CV CW CX CY CZ DE DJ DK DM DO DZ EC EE EG EH ER ES ET FI FJ FK FM FO FR GA GB GD GE GF GG GH GI GL GM GN GP GQ GR GS GT GU GW GY HK HM HN HR HT HU ID IE IL IM IN IO IQ IR IS IT JE JM JO JP KE KG KH KI KM KN KP KR KW KY KZ LA LB LC LI LK LR LS LT LU LV LY MA MC MD ME MF MG MH MK ML MM MN MO MP MQ MR MS MT MU MV MW MX MY MZ NA NC NE NF NG NI NL NO NP NR NU NZ OM PA PE PF PG PH PK PL PM PN PR PS PT PW PY QA RE RO RS RU RW SA SB SC SD SE SG SH SI SJ SK SL SM SN SO SR SS ST SV SX SY SZ TC TD TF TG TH TJ TK TL TM TN TO TR TT TV TW TZ UA UG UM US UY UZ VA VC VE VG VI VN VU WF WS YE YT ZA ZM ZW'.split(
    ' ',
  ),
);

/** Returns whether a list contains an ASCII code in any case. Some other letters would be ASCII letters in uppercase. */
const isListed = (codes: ReadonlySet<string>, text: string): boolean =>
  /^[a-z]+$/i.test(text) && codes.has(text.toUpperCase());

/** Returns whether a URL starts with http:// or https:// and contains no spaces. */
const isWebUrl = (text: string): boolean => /^https?:\/\/\S+$/i.test(text) && URL.canParse(text);

/** Returns whether the engine's time zone database contains a name. */
export function isTimeZone(text: string): boolean {
  // UTC offsets such as +01:00 are not names.
  if (!/^[a-z][a-z0-9_+/-]{0,63}$/i.test(text)) return false;
  try {
    return new Intl.DateTimeFormat('en', { timeZone: text }).resolvedOptions().timeZone !== '';
  } catch {
    return false;
  }
}

/** Returns whether an IBAN has a valid length and check digits (ISO 13616). */
function isIban(text: string): boolean {
  if (!/^[A-Z]{2} *\d *\d[A-Z0-9 ]+$/i.test(text)) return false;
  const compact = text.replaceAll(' ', '').toUpperCase();
  if (!/^.{15,34}$/.test(compact)) return false;
  const moved = compact.slice(4) + compact.slice(0, 4);
  const digits = moved.replace(/[A-Z]/g, (letter) => String(letter.charCodeAt(0) - 55));
  return BigInt(digits) % 97n === 1n;
}

/** All formats, by name. */
const formats = {
  email: {
    expected: 'an email address',
    isValid: (text) =>
      text.length <= maxEmail &&
      /^[^\s@"(),:;<>[\]\\]+@(?:[\p{L}\p{N}](?:[\p{L}\p{M}\p{N}-]{0,62}\.))+[\p{L}\p{N}-]{2,63}$/u.test(text),
    shape: '^[^@[:space:]]+@[^@[:space:]]+$',
    comparison: 'caseless',
    json: 'email',
    examples: ['ada@engines.example'],
  },
  url: {
    expected: 'a URL that starts with http:// or https://',
    isValid: isWebUrl,
    shape: '^[Hh][Tt][Tt][Pp][Ss]?://[^[:space:]]+$',
    comparison: 'exact',
    json: 'uri',
    examples: ['https://engines.example/'],
  },
  phone: {
    expected: 'a phone number',
    isValid: (text) => {
      const digits = text.replace(/\D/g, '').replace(/^00/, '').length;
      return /^\+?[\d ()./-]+$/.test(text) && digits >= minDigits && digits <= maxDigits;
    },
    shape: '^[+]?[0-9 ()./-]*[0-9][0-9 ()./-]*$',
    comparison: 'digits',
    json: 'phone',
    examples: ['+1 (555) 010-0'],
  },
  iana_timezone: {
    expected: 'an IANA time zone, for example Europe/Berlin',
    isValid: isTimeZone,
    shape: '^[A-Za-z][A-Za-z0-9_+/-]*$',
    comparison: 'caseless',
    json: 'iana-timezone',
    examples: ['Europe/Berlin'],
  },
  iban: {
    expected: 'a valid IBAN',
    isValid: isIban,
    shape: '^[A-Za-z]{2} *[0-9] *[0-9][A-Za-z0-9 ]+$',
    comparison: 'compact',
    json: 'iban',
    examples: ['DE89 3704 0044 0532 0130 00'],
  },
  country: {
    expected: 'an ISO 3166 country code, for example DE',
    isValid: (text) => isListed(countries, text),
    shape: '^[A-Za-z]{2}$',
    comparison: 'caseless',
    json: 'country-code',
    examples: ['DE'],
  },
  currency: {
    expected: 'an ISO 4217 currency code, for example EUR',
    isValid: (text) => isListed(currencies, text),
    shape: '^[A-Za-z]{3}$',
    comparison: 'caseless',
    json: 'currency-code',
    examples: ['EUR'],
  },
} as const satisfies Readonly<Record<string, TextFormat>>;

/** The name of a format. */
export type TextFormatName = keyof typeof formats;

/** Returns the format with this name. */
export const textFormatOf = (name: TextFormatName): TextFormat => formats[name];

/** The names of all formats. */
export const textFormatNames = Object.keys(formats) as readonly TextFormatName[];
