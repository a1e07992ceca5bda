/** A keyboard shortcut: keys that are pressed together, in one or more alternatives, and what they do. */
interface Shortcut {
  readonly alternatives: readonly (readonly string[])[];
  readonly text: string;
}

/** The keyboard shortcuts of the admin UI (`assets/setup.js`), as listed by `?` and on their page. */
export const shortcuts: readonly Shortcut[] = [
  { alternatives: [['/']], text: 'Search everything' },
  {
    alternatives: [
      ['⌘', 'K'],
      ['Ctrl', 'K'],
    ],
    text: 'Open the command palette',
  },
  { alternatives: [['c']], text: 'Create a record or an entry of the current list' },
  { alternatives: [['e']], text: 'Edit the current record' },
  { alternatives: [['j'], ['k']], text: 'Go to the next or previous row or card' },
  { alternatives: [['x']], text: 'Select the current row' },
  {
    alternatives: [
      ['Shift', '←'],
      ['Shift', '→'],
    ],
    text: 'Move the current card on a board',
  },
  {
    alternatives: [
      ['⌘', 'Enter'],
      ['Ctrl', 'Enter'],
    ],
    text: 'Save a note or a value with several lines',
  },
  { alternatives: [['Esc']], text: 'Close a menu, a dialog or a value’s form' },
  { alternatives: [['?']], text: 'Show the keyboard shortcuts' },
];
