/** Languages of the admin UI, English first. Each module has a text catalogue in each language. */
export const languages = ['en', 'de'] as const;

/** A language of the admin UI. */
export type Language = (typeof languages)[number];

/** Languages into which the English texts are translated. */
type Translation = Exclude<Language, 'en'>;

declare const textBrand: unique symbol;

/** A text from a catalogue. Strings from other sources cannot be assigned to it. */
export type Text = string & { readonly [textBrand]: true };

/** A text's forms by plural category of the parameter `count`. Each language uses its own categories. */
type PluralForms = Readonly<Partial<Record<Intl.LDMLPluralRule, string>>> & { readonly other: string };

/** A text with parameters in braces, or the forms of a text with a number. */
type CatalogueText = string | PluralForms;

/** A module's texts in one language. */
export type Catalogue = Readonly<Record<string, CatalogueText>>;

/** The keys of a translation, which are the keys of the English catalogue, and the kind of each text. */
export type TranslationOf<English extends Catalogue> = {
  readonly [Key in keyof English]: English[Key] extends string ? string : PluralForms;
};

/** The names of the parameters in a string. `{}` is not a parameter: messages after an action contain it. */
type NamesIn<Template extends string> = Template extends `${string}{${infer Name}}${infer Rest}`
  ? Exclude<Name, ''> | NamesIn<Rest>
  : never;

type NamesOf<Value> = Value extends string
  ? NamesIn<Value>
  : Value extends { readonly other: infer Other extends string }
    ? NamesIn<Other> | 'count'
    : never;

type ParametersOf<Value> = { readonly [Name in NamesOf<Value>]: Name extends 'count' ? number : string };

/** A translation whose texts have the English texts' parameters. Other texts have a type without values. */
type WithSameParameters<English extends Catalogue, Translated> = {
  readonly [Key in keyof Translated]: Key extends keyof English
    ? [NamesOf<English[Key]>, NamesOf<Translated[Key]>] extends [
        NamesOf<Translated[Key]>,
        NamesOf<English[Key]>,
      ]
      ? Translated[Key]
      : { readonly 'has other parameters than the English text': NamesOf<English[Key]> }
    : never;
};

/** A function of a text's key and the values of its parameters. */
type Lookup<English extends Catalogue, Result> = <Key extends keyof English & string>(
  key: Key,
  ...parameters: [NamesOf<English[Key]>] extends [never] ? [] : [ParametersOf<English[Key]>]
) => Result;

/** A text that is known before the language, for example the title of a section. */
export type TextIn = (language: Language) => Text;

/** Returns a label, a name or a value, which has the language of its author, as a text. */
export const ownWords = (words: string): Text => words as Text;

/** Returns a text of a definition in a language. A string is the same in all languages. */
export const textIn = (text: string | TextIn, language: Language): Text =>
  typeof text === 'string' ? ownWords(text) : text(language);

/** Joins sentences to a text. */
export const joinTexts = (sentences: readonly Text[]): Text => sentences.join(' ') as Text;

/** A text's parameter values. */
type Values = Readonly<Record<string, string | number>>;

/** A text compiled for one language. */
interface CompiledText {
  readonly plain: (values: Values) => Text;
  /** Returns HTML in which parameters are escaped. */
  readonly html: (values: Values) => string;
}

const entities: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#x27;',
};
const escapeHtml = (text: string): string => text.replace(/[&<>"']/g, (sign) => entities[sign] ?? sign);

/** Escapes a catalogue's own words, in which `<strong>` and `<code>` are allowed. */
const escapeWords = (words: string): string =>
  escapeHtml(words).replace(/&lt;(\/?(?:strong|code))&gt;/g, '<$1>');

/** Compiles a string with parameters. */
function compileTemplate(template: string, numbers: Intl.NumberFormat): CompiledText {
  // The elements at odd positions are the names of parameters.
  const parts = template.split(/\{(\w+)\}/);
  const escaped = parts.map((part, index) => (index % 2 === 1 ? part : escapeWords(part)));
  const format = (value: string | number | undefined) =>
    typeof value === 'number' ? numbers.format(value) : (value ?? '');
  const fill = (pieces: readonly string[], values: Values, encode: (text: string) => string) =>
    pieces.map((piece, index) => (index % 2 === 1 ? encode(format(values[piece])) : piece)).join('');
  return {
    plain: (values) => fill(parts, values, (text) => text) as Text,
    html: (values) => fill(escaped, values, escapeHtml),
  };
}

/** Compiles a text: the plural form is selected by the parameter `count`. */
function compileText(text: CatalogueText, language: Language): CompiledText {
  const numbers = new Intl.NumberFormat(language);
  if (typeof text === 'string') return compileTemplate(text, numbers);
  const rules = new Intl.PluralRules(language);
  const forms = new Map(
    Object.entries(text).map(([category, form]) => [category, compileTemplate(form, numbers)]),
  );
  const other = compileTemplate(text.other, numbers);
  const formFor = ({ count }: Values) => forms.get(rules.select(Number(count))) ?? other;
  return {
    plain: (values) => formFor(values).plain(values),
    html: (values) => formFor(values).html(values),
  };
}

/** All modules' catalogues by language, as written. The tests compare them. */
export const catalogues = new Map<string, Readonly<Record<Language, Catalogue>>>();

/** All modules' compiled texts. The keys are `<language> <module>.<key>`. */
const compiledTexts = new Map<string, CompiledText>();

/** Returns a text compiled at startup. @throws Error if the text does not exist */
function compiledText(language: Language, name: string): CompiledText {
  const text = compiledTexts.get(`${language} ${name}`);
  if (text === undefined) throw new Error(`the text ${name} does not exist in ${language}`);
  return text;
}

/**
 * Returns a text as HTML for a template. Parameters are escaped.
 * @param name the names of the module and the text, for example `login.password`
 */
export const htmlText = (language: Language, name: string, values: Values): string =>
  compiledText(language, name).html(values);

/** Returns a text as plain text for the template of an email. @param name see {@link htmlText} */
export const plainText = (language: Language, name: string, values: Values): Text =>
  compiledText(language, name).plain(values);

/** A module's texts. */
export interface Texts<English extends Catalogue> {
  /** Returns the function that finds the module's texts in a language. */
  (language: Language): Lookup<English, Text>;
  /** Returns a text whose language is not known yet. */
  readonly later: Lookup<English, TextIn>;
}

/**
 * Adds a module's texts, compiled for each language. Missing and unknown keys, and parameters that differ from the English
 * text's parameters, are type errors.
 * @param module the module's name, with which templates refer to its texts
 */
export function defineTexts<
  const English extends Catalogue,
  const Translated extends Readonly<Record<Translation, TranslationOf<English>>>,
>(
  module: string,
  en: English,
  translated: Translated & {
    readonly [Name in Translation]: WithSameParameters<English, Translated[Name]>;
  },
): Texts<English> {
  const all: Readonly<Record<Language, Catalogue>> = { en, ...translated };
  catalogues.set(module, all);
  for (const language of languages) {
    for (const [key, text] of Object.entries(all[language]))
      compiledTexts.set(`${language} ${module}.${key}`, compileText(text, language));
  }
  const later: Lookup<English, TextIn> =
    (key, ...[values]) =>
    (language) =>
      compiledText(language, `${module}.${key}`).plain(values ?? {});
  const textsIn =
    (language: Language): Lookup<English, Text> =>
    (key, ...parameters) =>
      later(key, ...parameters)(language);
  return Object.assign(textsIn, { later });
}
