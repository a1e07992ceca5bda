import leven from 'leven';

/** The known word that was meant by another one; undefined if none is near. Case and separators do not count. */
export function nearest(word: string, known: readonly string[]): string | undefined {
  const bare = plain(word);
  const { length } = bare;
  const allowed = length < 2 ? 0 : length < 4 ? 1 : Math.max(2, length / 3);
  return known
    .map((candidate) => ({ candidate, distance: leven(bare, plain(candidate)) }))
    .filter(
      ({ candidate, distance }) =>
        (distance <= allowed && distance < bare.length) || letters(bare) === letters(plain(candidate)),
    )
    .sort((a, b) => a.distance - b.distance)[0]?.candidate;
}

const plain = (word: string): string => word.toLowerCase().replace(/[\s_-]/g, '');

const letters = (word: string): string => [...word].sort().join('');

/** `. Did you mean "…"?` if a known word is near, else an empty text. */
export function suggestion(word: string, known: readonly string[]): string {
  const meant = nearest(word, known);
  return meant === undefined ? '' : didYouMean(meant);
}

/** More names than this are no help. */
const maxListed = 12;

/** As {@link suggestion}; where no known word is near, the few that there are. */
export function suggestionOrList(word: string, known: readonly string[]): string {
  const hint = suggestion(word, known);
  if (hint !== '' || known.length === 0 || known.length > maxListed) return hint;
  return `: there ${known.length === 1 ? 'is' : 'are'} ${known.join(', ')}`;
}

export const didYouMean = (word: string): string => `. Did you mean "${word}"?`;

/** A name as definitions have it, from one in another style: `firstName`, `First Name` and `first-name` are `first_name`. */
export const snakeCase = (name: string): string =>
  name
    .normalize('NFKD')
    .replace(/([a-z0-9])([A-Z])/g, '$1_$2')
    .toLowerCase()
    .replace(/[\s.-]+/g, '_')
    .replace(/[^a-z0-9_]|^[_0-9]+|_+$/g, '');

/** A value as a message repeats it: short. */
export function excerpt(value: unknown): string {
  if (value === null) return 'nothing';
  if (Array.isArray(value)) return 'a list';
  if (typeof value === 'object') return 'a map';
  const text = typeof value === 'string' ? JSON.stringify(value) : String(value);
  return text.length > 40 ? `${text.slice(0, 39)}…` : text;
}
