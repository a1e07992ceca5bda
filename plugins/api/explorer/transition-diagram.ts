import { type Field, type Transitions, transitionScope } from '../../../engine/fields/index.ts';

/** A field whose value can change only along its transitions. */
export interface LimitedField {
  readonly name: string;
  /** The values, in the order of the diagram. */
  readonly values: readonly string[];
  readonly transitions: Transitions;
}

/** Returns the fields whose values can change only along their transitions. */
export const limitedFields = (fields: readonly Field[]): readonly LimitedField[] =>
  fields.flatMap(({ name, values, transitions, aliasOf }) =>
    values === undefined || transitions === undefined || aliasOf !== undefined
      ? []
      : [{ name, values: values.list, transitions }],
  );

/** Returns a sentence for each value: the values to which it can change. */
export const transitionSentences = ({ values, transitions }: LimitedField): readonly string[] =>
  values.map((value) => {
    const next = transitions.next.get(value) ?? [];
    const start = transitions.initial.includes(value) ? ', where new records can start,' : '';
    const options = next.map((to) => {
      const scope = transitionScope(transitions, value, to);
      return scope === undefined ? to : `${to} (in the scope ${scope})`;
    });
    const rest = next.length === 0 ? 'is final' : `can change to ${words.format(options)}`;
    return `${value}${start} ${rest}.`;
  });

const words = new Intl.ListFormat('en', { type: 'disjunction' });

/** Sizes in pixels. Text is about `character` pixels wide per character. */
const [boxHeight, gap, margin, character, maxBulge] = [32, 30, 8, 8, 96];
const maxCharacters = 40;
/** Size of the labels of arrows, and the width of their characters. */
const [scopeSize, scopeCharacter] = [11, 6];

/** Colors of a scheme: background, lines, boxes and text. */
const schemes = {
  light: { canvas: '#ffffff', line: '#57606a', box: '#f3f4f6', text: '#1f2328' },
  dark: { canvas: '#16181d', line: '#9aa4b2', box: '#23272f', text: '#e6e8eb' },
} as const;

const styleOf = ({ canvas, line, box, text }: (typeof schemes)['light' | 'dark']): string =>
  `.canvas{fill:${canvas}}.box{fill:${box};stroke:${line}}.inner{fill:none;stroke:${line}}.arrow{fill:none;stroke:${line};stroke-width:1.5}.head,.start{fill:${line}}text{fill:${text}}`;

const escapeXml = (text: string): string =>
  text.replace(/[&<>"]/g, (character) => `&#${character.codePointAt(0)};`);

/** Distance between an arrow and the control points of its arc. */
const bulgeOf = (steps: number): number => Math.min(maxBulge, 20 + 16 * steps);

/** Returns the path of an arrow on the right side of the boxes, or on the left side if it points upward. */
function arc(x: number, from: number, to: number, steps: number): string {
  const side = to > from ? 1 : -1;
  const bulge = side * bulgeOf(steps);
  const [start, end] = [from + side * 5, to - side * 5];
  return `M${x} ${start}C${x + bulge} ${start} ${x + bulge} ${end} ${x} ${end}`;
}

/**
 * Returns an SVG image of a field's transitions: a column of boxes with arrows. A dot marks the values of new records, and
 * a double border marks final values.
 */
export function transitionDiagram(field: LimitedField): string {
  const { name, values, transitions } = field;
  const labels = values.map((value) =>
    value.length > maxCharacters ? `${value.slice(0, maxCharacters - 1)}…` : value,
  );
  const longest = Math.max(...labels.map(({ length }) => length));
  const scopes = [...(transitions.scopes?.values() ?? [])].flatMap((to) => [...to.values()]);
  const longestScope = Math.max(0, ...scopes.map(({ length }) => length));
  const side = bulgeOf(values.length) + longestScope * scopeCharacter;
  const boxWidth = Math.max(96, longest * character + 40);
  const [left, right] = [margin + side, margin + side + boxWidth];
  const center = left + boxWidth / 2;
  const middle = (index: number) => margin + index * (boxHeight + gap) + boxHeight / 2;
  const width = right + side + margin;
  const height = middle(values.length - 1) + boxHeight / 2 + margin;
  const arrows = values.flatMap((value, from) =>
    (transitions.next.get(value) ?? [])
      .map((next) => values.indexOf(next))
      .filter((to) => to !== from && to >= 0)
      .map((to) => {
        if (to === from + 1)
          return `M${center} ${middle(from) + boxHeight / 2}V${middle(to) - boxHeight / 2 - 1}`;
        return arc(to > from ? right : left, middle(from), middle(to), Math.abs(to - from));
      }),
  );
  const scopeLabels = values.flatMap((value, from) =>
    (transitions.next.get(value) ?? []).flatMap((next) => {
      const scope = transitionScope(transitions, value, next);
      const to = values.indexOf(next);
      if (scope === undefined || to === from || to < 0) return [];
      const isStraight = to === from + 1;
      const isUp = to < from;
      // The middle of an arc is three quarters of the distance to its control points away from the boxes.
      const bulge = 0.75 * bulgeOf(Math.abs(to - from)) + 4;
      const x = isStraight ? center + 6 : isUp ? left - bulge : right + bulge;
      const y = (middle(from) + middle(to)) / 2 + scopeSize / 3;
      return [
        `<text x="${x}" y="${y}" font-size="${scopeSize}" text-anchor="${isUp ? 'end' : 'start'}">${escapeXml(scope)}</text>`,
      ];
    }),
  );
  const boxes = labels.map((label, index) => {
    const value = values[index] ?? '';
    const top = middle(index) - boxHeight / 2;
    const isFinal = (transitions.next.get(value) ?? []).length === 0;
    return [
      `<rect class="box" x="${left}" y="${top}" width="${boxWidth}" height="${boxHeight}" rx="6"/>`,
      isFinal
        ? `<rect class="inner" x="${left + 3}" y="${top + 3}" width="${boxWidth - 6}" height="${boxHeight - 6}" rx="4"/>`
        : '',
      transitions.initial.includes(value)
        ? `<circle class="start" cx="${left + 14}" cy="${middle(index)}" r="4"/>`
        : '',
      `<text x="${center}" y="${middle(index) + 5}" text-anchor="middle">${escapeXml(label)}</text>`,
    ].join('');
  });
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}" role="img" aria-labelledby="title desc" font-family="system-ui,sans-serif" font-size="14">`,
    `<title id="title">${escapeXml(`Transitions of ${name}`)}</title><desc id="desc">${escapeXml(transitionSentences(field).join(' '))}</desc>`,
    `<style>${styleOf(schemes.light)}@media (prefers-color-scheme:dark){${styleOf(schemes.dark)}}</style>`,
    '<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="6" markerHeight="6" orient="auto"><path class="head" d="M0 0L8 4L0 8z"/></marker></defs>',
    `<rect class="canvas" width="${width}" height="${height}" rx="8"/>`,
    ...arrows.map((path) => `<path class="arrow" d="${path}" marker-end="url(#head)"/>`),
    ...boxes,
    ...scopeLabels,
    '</svg>',
  ].join('\n');
}
