// Yaml: YAML that people edit: read and parsed with the place of every part, so that mistakes can be shown where they are.
// May import errors.

export { withEntry, withItem } from './edit.ts';
export {
  hasPath,
  lineOf,
  type Parsed,
  parseYaml,
  type Source,
  sortIssues,
  type Target,
  YamlError,
  type YamlIssue,
} from './load.ts';
export { readYaml } from './read.ts';
export { hasKey, implies, oneOfSchema } from './schemas.ts';
export { type AlternativeFor, shape } from './shape.ts';
export { suggestion, suggestionOrList } from './words.ts';
