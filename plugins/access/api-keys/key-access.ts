import { type Input, type Language, type Text, type TextIn, textIn } from '../../admin-ui/shell/index.ts';
import { apiKeysTexts } from './texts/index.ts';

const { later } = apiKeysTexts;

/** What a key can do with the grants of its profile. */
export type KeyAccess = 'read-only' | 'propose' | 'write';

/** How each access is displayed in forms and, unless it is the default, in lists. */
const accesses: Readonly<Record<KeyAccess, { readonly label: TextIn; readonly listed?: TextIn }>> = {
  'read-only': { label: later('readOnly'), listed: later('readOnlyListed') },
  propose: { label: later('propose'), listed: later('proposeListed') },
  write: { label: later('write') },
};

/** The names of {@link KeyAccess}. */
export const keyAccesses = Object.keys(accesses) as readonly KeyAccess[];

/** Returns the access with a name, or undefined if there is no such access. */
export const keyAccessOf = (name: string): KeyAccess | undefined =>
  keyAccesses.find((access) => access === name);

/** Columns of a key. */
interface AccessColumns {
  readonly read_only: boolean;
  readonly proposes: boolean;
}

/** Returns the columns that store an access. */
export const accessColumns = (access: KeyAccess): AccessColumns => ({
  read_only: access !== 'write',
  proposes: access === 'propose',
});

/** SQL expression for the access of a key `k`. */
export const accessSql = `case when k.proposes then 'propose' when k.read_only then 'read-only' else 'write' end`;

/** Returns the form input for a key's access. */
export const accessInput = (selected: KeyAccess, language: Language): Input<Text> => ({
  kind: 'choice',
  name: 'access',
  label: apiKeysTexts(language)('access'),
  help: apiKeysTexts(language)('accessHelp'),
  options: keyAccesses.map((access) => ({
    value: access,
    label: accesses[access].label(language),
    selected: access === selected,
  })),
});

/** Returns the access as a second line of a list's cell, which is empty for keys that can write. */
export function accessLine(access: KeyAccess, language: Language): { readonly below?: string } {
  const { listed } = accesses[access];
  return listed === undefined ? {} : { below: textIn(listed, language) };
}
