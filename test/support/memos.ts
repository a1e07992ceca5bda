import type { Source } from '../../engine/yaml/load.ts';

const source = (name: string, fields: string, filters = 'name'): Source => ({
  file: `resources/${name}.yaml`,
  text: `singular: ${name.slice(0, -1)}
common: all
fields:
  name: { type: string }
${fields}sort: { by: name }
filters: [${filters}]
`,
});

/** Resources whose references point to one of several resources, with every `on_delete`. */
export const memos: readonly Source[] = [
  source(
    'memos',
    '  subject: { type: reference, to: [leads, contacts, opportunities], nullable: true, description: What it is about. }\n',
    'name, { field: subject, operators: [eq, ne, in, is_null] }',
  ),
  source(
    'pins',
    '  target: { type: reference, to: [memos, leads, pins], required: true, on_delete: cascade }\n  copy_id: { type: reference, to: pins, nullable: true }\n',
  ),
  source(
    'blocks',
    '  target: { type: reference, to: [memos, leads], nullable: true, on_delete: restrict }\n',
    'target',
  ),
];
