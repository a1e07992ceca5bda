import { readFileSync } from 'node:fs';
import handlebars from 'handlebars';
import type { Mail } from './mail.ts';

/**
 * A plain-text mail from a handlebars file: the first line is the subject, the text follows a blank line.
 * @param path of the file
 */
export function mailTemplate(path: string): (to: string, data: object) => Mail {
  // Plain text: nothing is escaped.
  const render = handlebars.create().compile(readFileSync(path, 'utf8'), { noEscape: true, strict: true });
  return (to, data) => {
    const [subject = '', , ...lines] = render(data).split('\n');
    return { to, subject, text: lines.join('\n') };
  };
}
