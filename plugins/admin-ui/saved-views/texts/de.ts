import type { TranslationOf } from '../../shell/index.ts';
import type en from './en.ts';

/** German texts of errors of saved views. */
export default {
  tooMany: 'Sie haben bereits {max} Ansichten dieser Liste. Löschen Sie zuerst eine Ansicht.',
  tooManyFilters: 'Diese Ansicht hat zu viele Filter, um gespeichert zu werden. Entfernen Sie einige davon.',
  nameTaken: 'Eine Ansicht mit dem Namen „{name}“ existiert bereits.',
} as const satisfies TranslationOf<typeof en>;
