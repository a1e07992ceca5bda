import type { TextIn } from './catalogue.ts';
import { shellTexts } from './texts/index.ts';

const { later } = shellTexts;

/** A keyboard shortcut: keys that are pressed together, in one or more alternatives, and what they do. */
interface Shortcut {
  readonly alternatives: readonly (readonly string[])[];
  readonly text: TextIn;
}

/** The keyboard shortcuts of the admin UI (`assets/setup.js`), as listed by `?` and on their page. */
export const shortcuts: readonly Shortcut[] = [
  { alternatives: [['/']], text: later('searchEverything') },
  {
    alternatives: [
      ['⌘', 'K'],
      ['Ctrl', 'K'],
    ],
    text: later('openPalette'),
  },
  { alternatives: [['c']], text: later('createEntry') },
  { alternatives: [['e']], text: later('editCurrent') },
  { alternatives: [['j'], ['k']], text: later('nextRow') },
  { alternatives: [['x']], text: later('selectRow') },
  {
    alternatives: [
      ['Shift', '←'],
      ['Shift', '→'],
    ],
    text: later('moveCard'),
  },
  {
    alternatives: [
      ['⌘', 'Enter'],
      ['Ctrl', 'Enter'],
    ],
    text: later('saveLines'),
  },
  { alternatives: [['Esc']], text: later('closeMenu') },
  { alternatives: [['?']], text: later('showShortcuts') },
];
