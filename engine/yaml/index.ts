// YAML: files that people edit, parsed with the place of every part, so that each mistake can be shown where it stands.
// May import errors.

export { inOrder, type Parsed, type Problem, parseYaml, type Source, YamlError } from './load.ts';
export { shape, suggestion } from './shape.ts';
