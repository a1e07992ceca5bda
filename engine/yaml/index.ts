// Yaml: parses YAML files, and reports issues with their location and a suggestion.
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
export { didYouMean, nearest, snakeCase, suggestion, suggestionOrList, withArticle } from './words.ts';
