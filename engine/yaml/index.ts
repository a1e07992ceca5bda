// Yaml: YAML that people edit: parsed with the place of every part, so that mistakes can be shown where they are.
// May import errors.

export { withEntry, withItem } from './edit.ts';
export {
  inOrder,
  type Parsed,
  type Problem,
  parseYaml,
  type Source,
  type Target,
  YamlError,
} from './load.ts';
export { shape, suggestion } from './shape.ts';
