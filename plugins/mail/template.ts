import { readFileSync } from 'node:fs';
import handlebars from 'handlebars';
import type { Mail } from './mail.ts';

/**
 * A mail of plain text from a handlebars file: the first line is the subject, what follows the blank line the text.
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
