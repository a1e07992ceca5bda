import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import handlebars from 'handlebars';
import { errors } from '../../engine/errors.ts';

const folder = join(import.meta.dirname, 'templates');
const engine = handlebars.create();

/** Plain-text message templates (templates/*.hbs), compiled at startup. */
const templates = new Map(
  readdirSync(folder)
    .filter((file) => file.endsWith('.hbs'))
    .map((file) => {
      const text = readFileSync(join(folder, file), 'utf8').trim();
      // Messages are plain text, so HTML must not be escaped.
      return [file.slice(0, -4), engine.compile(text, { noEscape: true, strict: true })] as const;
    }),
);

/**
 * Renders a template. The data is never evaluated as a template.
 * @throws HttpError 400 if the template does not exist
 */
export function renderTemplate(name: string, data: Readonly<Record<string, string>>): string {
  const template = templates.get(name);
  if (template === undefined) {
    const names = [...templates.keys()].join(', ');
    throw errors.invalidFields([{ field: 'template', message: `template must be one of ${names}` }]);
  }
  return template(data, { allowProtoMethodsByDefault: false, allowProtoPropertiesByDefault: false });
}
