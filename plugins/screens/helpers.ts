import type handlebars from 'handlebars';

type Engine = typeof handlebars;

/** Adds the helpers that the views use. Handlebars escapes what they return. */
export function withHelpers(engine: Engine): Engine {
  engine.registerHelper('time', (value: Date | string | null | undefined) => {
    if (value == null) return 'never';
    const iso = new Date(value).toISOString();
    const text = `${iso.slice(0, 10)} ${iso.slice(11, 16)} UTC`;
    return new engine.SafeString(`<time datetime="${iso}">${text}</time>`);
  });
  engine.registerHelper('equal', (a: unknown, b: unknown) => a === b);
  return engine;
}
