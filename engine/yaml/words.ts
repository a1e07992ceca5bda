import leven from 'leven';

/** Returns the candidate closest to a word, ignoring case and separators, or undefined if none is close. */
export function nearest(word: string, candidates: readonly string[]): string | undefined {
  const plainWord = normalize(word);
  const { length } = plainWord;
  const maxDistance = length < 4 ? 1 : Math.max(2, length / 3);
  return (
    candidates
      .map((candidate) => {
        const plain = normalize(candidate);
        return { candidate, plain, distance: leven(plainWord, plain) };
      })
      .filter(
        ({ plain, distance }) =>
          (distance <= maxDistance && distance < length) || sortLetters(plainWord) === sortLetters(plain),
      )
      // With more than one mistake in a short word, another first letter means another word: "deals" is not "leads".
      .filter(({ plain, distance }) => distance < 2 || length > 5 || plain[0] === plainWord[0])
      .sort((a, b) => a.distance - b.distance)[0]?.candidate
  );
}

/** Converts a word to lowercase and removes separators. */
const normalize = (word: string): string => word.toLowerCase().replace(/[\s_-]/g, '');

/** Sorts letters, so that words with transposed letters are equal. */
const sortLetters = (word: string): string => [...word].sort().join('');

/** Returns `Did you mean "…"?` if a candidate is close. */
export function hintFor(word: string, candidates: readonly string[]): string | undefined {
  const candidate = nearest(word, candidates);
  return candidate === undefined ? undefined : didYouMean(candidate);
}

/** Maximum number of characters of a name in a request to compare. Comparing takes time, and a request can contain any name. */
const maxCompared = 60;

/** Returns a {@link hintFor} a name in a request. Long names are not compared. */
export const hintForInput = (name: string, candidates: readonly string[]): string | undefined =>
  name.length <= maxCompared ? hintFor(name, candidates) : undefined;

/** Returns `. Did you mean "…"?` if a candidate is close, or an empty string. */
export function suggestion(word: string, candidates: readonly string[]): string {
  const hint = hintFor(word, candidates);
  return hint === undefined ? '' : `. ${hint}`;
}

/** Maximum number of candidates to list. */
const maxListed = 12;

/** Returns a {@link suggestion}, or lists the candidates if none is close and there are only a few. */
export function suggestionOrList(word: string, candidates: readonly string[]): string {
  const hint = suggestion(word, candidates);
  if (hint !== '' || candidates.length === 0 || candidates.length > maxListed) return hint;
  return `. Available: ${candidates.join(', ')}`;
}

/** Returns a sentence that suggests a word. */
export const didYouMean = (word: string): string => `Did you mean "${word}"?`;

/** Converts a name to snake case: `firstName`, `First Name` and `first-name` become `first_name`. */
export const snakeCase = (name: string): string =>
  name
    .normalize('NFKD')
    .replace(/([a-z0-9])([A-Z])/g, '$1_$2')
    .toLowerCase()
    .replace(/[\s.-]+/g, '_')
    .replace(/[^a-z0-9_]|^[_0-9]+|_+$/g, '');

/** Returns a noun with its indefinite article, for example "an integer" or "a user". */
export const withArticle = (noun: string): string => `${/^(?!user)[aeiou]/.test(noun) ? 'an' : 'a'} ${noun}`;

/** Formats a value for a message, shortened to 40 characters. */
export function formatValue(value: unknown): string {
  if (value === null) return 'nothing';
  if (Array.isArray(value)) return 'a list';
  if (typeof value === 'object') return 'a map';
  const text = typeof value === 'string' ? JSON.stringify(value) : String(value);
  return text.length > 40 ? `${text.slice(0, 39)}…` : text;
}
