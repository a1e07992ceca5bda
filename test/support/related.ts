import type { Source } from '../../engine/yaml/load.ts';

const source = (name: string, fields: string, filters = ''): Source => ({
  file: `resources/${name}.yaml`,
  text: `singular: ${name.slice(0, -1)}
common: all
fields:
  name: { type: string }
${fields}sort: { by: created_at, direction: desc }
filters: [name${filters}]
`,
});

/** Resources whose references cover every `on_delete`, including cycles and references to the same resource. */
export const related: readonly Source[] = [
  source(
    'folders',
    `  parent_id: { type: reference, to: folders, nullable: true, on_delete: cascade }
  pinned_id: { type: reference, to: papers, nullable: true, on_delete: clear }
`,
  ),
  source(
    'papers',
    `  folder_id: { type: reference, to: folders, required: true, on_delete: cascade }
  second_folder_id: { type: reference, to: folders, nullable: true }
  reply_to_id: { type: reference, to: papers, nullable: true, on_delete: restrict }
  review_id: { type: reference, to: reviews, nullable: true, on_delete: cascade }
`,
  ),
  source(
    'reviews',
    `  paper_id: { type: reference, to: papers, nullable: true, on_delete: cascade }
  folder_id: { type: reference, to: folders, nullable: true, on_delete: restrict }
`,
  ),
  source(
    'clamps',
    '  paper_id: { type: reference, to: papers, required: true, on_delete: restrict }\n',
    ', paper_id',
  ),
  source(
    'labels',
    '  paper_id: { type: reference, to: papers, nullable: true }\n  clamp_id: { type: reference, to: clamps, nullable: true }\n',
  ),
];
