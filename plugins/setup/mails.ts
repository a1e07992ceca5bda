import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import handlebars from 'handlebars';
import type { Mail } from '../mail.ts';

/** A mail by the name of its file: the first line is the subject, what follows the blank line the text. */
const template = (name: string) => {
  const source = readFileSync(join(import.meta.dirname, 'mails', `${name}.hbs`), 'utf8');
  // Plain text: nothing is escaped.
  const render = handlebars.create().compile(source, { noEscape: true, strict: true });
  return (to: string, data: object): Mail => {
    const [subject = '', , ...lines] = render(data).split('\n');
    return { to, subject, text: lines.join('\n') };
  };
};

/** Data: `organization` (name), `link`, `code`. */
export const inviteMail = template('invite');

/** Data: `links`, each with `organization` (name or null), `link` and `code`. */
export const resetMail = template('reset');
