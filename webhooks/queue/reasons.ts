import { type Language, ownWords, type Text, type TextIn } from '../../plugins/admin-ui/shell/index.ts';
import { queueTexts } from './texts/index.ts';

/**
 * Why an attempt failed, or why there was nothing to do. Stored as a code with values, so that pages explain it in the
 * user's language.
 */
export interface Reason<Code extends string = string> {
  readonly code: Code;
  /** Values of the parameters. */
  readonly values?: Readonly<Record<string, string>>;
}

type Values = NonNullable<Reason['values']>;

/** How a reason is explained. */
export interface Wording {
  /** The English sentence in the API, in commands and in the log. */
  readonly sentence: (values: Values) => string;
  /** The text on pages. */
  readonly text: (values: Values) => TextIn;
}

/** The wordings of a queue's reasons, by code. */
export type Wordings = Readonly<Record<string, Wording>>;

/** Reasons in every queue. */
export const commonReasons = {
  /** An error's message, which is in English. */
  message: {
    sentence: ({ message = '' }) => message,
    text:
      ({ message = '' }) =>
      () =>
        ownWords(message),
  },
  /** An unexpected error. Only its name is stored, because the message can contain personal data. */
  internal: {
    sentence: ({ name = '' }) => `failed: ${name}`,
    text: ({ name = '' }) => queueTexts.later('internalError', { name }),
  },
} satisfies Wordings;

/** Maximum length of a sentence and of a value, in characters. */
const maxLength = 500;

/** Returns the English sentence that explains a reason. */
export const reasonSentence = (wordings: Wordings, { code, values = {} }: Reason): string =>
  (wordings[code]?.sentence(values) || code).slice(0, maxLength);

/** Returns the text that explains a reason on pages, or undefined if another version of the program has stored it. */
export const translatedReason = (
  wordings: Wordings,
  { code, values = {} }: Reason,
  language: Language,
): Text | undefined => (Object.hasOwn(wordings, code) ? wordings[code]?.text(values)(language) : undefined);

/** Returns a reason with values that are not longer than a sentence. */
export const shortened = ({ code, values }: Reason): Reason => ({
  code,
  ...(values !== undefined && {
    values: Object.fromEntries(
      Object.entries(values).map(([name, value]) => [name, value.slice(0, maxLength)]),
    ),
  }),
});
