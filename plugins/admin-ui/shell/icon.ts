import { assetUrl } from './assets.ts';

/** Names of the icons in `assets/icons.svg`. */
export const iconNames = [
  'activity',
  'banknote',
  'book-open',
  'bookmark',
  'briefcase',
  'building-2',
  'calendar',
  'car',
  'chart-column',
  'check',
  'chevron-left',
  'chevron-right',
  'chevrons-up-down',
  'circle',
  'circle-check',
  'circle-dollar-sign',
  'circle-user',
  'clipboard-list',
  'clock',
  'columns-3',
  'copy',
  'credit-card',
  'download',
  'ellipsis',
  'eraser',
  'factory',
  'file-text',
  'flag',
  'folder',
  'globe',
  'graduation-cap',
  'handshake',
  'heart-pulse',
  'house',
  'inbox',
  'info',
  'key-round',
  'layers',
  'life-buoy',
  'list-filter',
  'log-out',
  'mail',
  'map-pin',
  'megaphone',
  'menu',
  'message-square',
  'package',
  'pencil',
  'phone',
  'plug',
  'plus',
  'receipt-text',
  'search',
  'send',
  'settings',
  'shield-check',
  'shopping-cart',
  'star',
  'stethoscope',
  'tag',
  'target',
  'ticket',
  'trash-2',
  'triangle-alert',
  'truck',
  'undo-2',
  'upload',
  'users',
  'webhook',
  'wrench',
  'x',
] as const;

export type IconName = (typeof iconNames)[number];

/** Returns an icon's HTML. Icons are decorative, because the text next to them has the same meaning. */
export const iconHtml = (name: IconName): string =>
  `<svg class="icon" aria-hidden="true"><use href="${assetUrl('icons.svg')}#${name}"/></svg>`;

/** Number of hues for badges, avatars and resource tiles in the stylesheet. */
const hues = 8;

/** Returns the hue for a position in a list, or the neutral hue if the position is -1. Positions start at 0. */
export const hueAt = (position: number): number => ((position + hues) % hues) + 1;

/** Returns the hue for a name, which is the same on every page. */
export const hueOf = (name: string): number =>
  hueAt([...name].reduce((sum, character) => (sum * 31 + (character.codePointAt(0) ?? 0)) % 65_521, 7));

/** Returns a name's initials: the first letters of its first and last words, or of an email address's name. */
export function initialsOf(name: string): string {
  const words = (name.split('@')[0] ?? '').split(/[\s._-]+/).filter((word) => /[\p{L}\p{N}]/u.test(word));
  const letter = (word = '') => /[\p{L}\p{N}]/u.exec(word)?.[0] ?? '';
  const [first, last] = [letter(words[0]), words.length > 1 ? letter(words.at(-1)) : ''];
  return (first + last).toLocaleUpperCase('en');
}
