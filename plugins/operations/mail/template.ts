import { readFileSync } from 'node:fs';
import handlebars from 'handlebars';
import { singleLine } from '../../../engine/tables/index.ts';
import type { Mail } from './mail.ts';

/**
 * Compiles a plain-text email from a Handlebars file. The first line is the subject, and the text follows after a
 * blank line. Values are reduced to single lines, so that a name cannot add headers or lines.
 * @param path the path of the file
 */
export function mailTemplate(path: string): (to: string, data: object) => Mail {
  // The email is plain text, so HTML must not be escaped.
  const render = handlebars.create().compile(readFileSync(path, 'utf8'), { noEscape: true, strict: true });
  return (to, data) => {
    const [subject = '', , ...lines] = render(singleLines(data)).split('\n');
    return { to, subject, text: lines.join('\n') };
  };
}

/** Returns a copy of template data with every string reduced to a single line. */
function singleLines(value: unknown): unknown {
  if (typeof value === 'string') return singleLine(value);
  if (Array.isArray(value)) return value.map(singleLines);
  if (value === null || typeof value !== 'object') return value;
  return Object.fromEntries(Object.entries(value).map(([name, item]) => [name, singleLines(item)]));
}
