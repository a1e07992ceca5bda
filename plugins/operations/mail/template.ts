import { readFileSync } from 'node:fs';
import handlebars from 'handlebars';
import { singleLine } from '../../../engine/tables/index.ts';
import type { Mail } from './mail.ts';

/**
 * A plain-text mail from a handlebars file: the first line is the subject, the text follows a blank line. Values are
 * reduced to a single line each, so that a name can add neither headers nor lines to the text.
 * @param path of the file
 */
export function mailTemplate(path: string): (to: string, data: object) => Mail {
  // Plain text: nothing is escaped.
  const render = handlebars.create().compile(readFileSync(path, 'utf8'), { noEscape: true, strict: true });
  return (to, data) => {
    const [subject = '', , ...lines] = render(singleLines(data)).split('\n');
    return { to, subject, text: lines.join('\n') };
  };
}

/** A copy of template data whose texts are single lines. */
function singleLines(value: unknown): unknown {
  if (typeof value === 'string') return singleLine(value);
  if (Array.isArray(value)) return value.map(singleLines);
  if (value === null || typeof value !== 'object') return value;
  return Object.fromEntries(Object.entries(value).map(([name, each]) => [name, singleLines(each)]));
}
