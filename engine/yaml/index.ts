// Yaml: YAML that people edit: read and parsed with the place of every part, so that mistakes can be shown where they are.
// May import errors.

export { withEntry, withItem } from './edit.ts';
export {
  hasAt,
  inOrder,
  lineOf,
  type Parsed,
  type Problem,
  parseYaml,
  type Source,
  type Target,
  YamlError,
} from './load.ts';
export { readYaml } from './read.ts';
export { has, implies, oneOf } from './schemas.ts';
export { type Advice, shape } from './shape.ts';
export { choice, suggestion } from './words.ts';
