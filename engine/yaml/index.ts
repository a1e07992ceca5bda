// Yaml: parses YAML files, and reports issues with their location and a suggestion.
// May import errors.

export { withEntry, withItem, withSections } from './edit.ts';
export {
  hasPath,
  lineOf,
  type Parsed,
  parseYaml,
  readYaml,
  type Source,
  sortIssues,
  type Target,
  YamlError,
  type YamlIssue,
} from './load.ts';
export { type AlternativeFor, hasKey, implies, oneOfSchema, shape } from './shape.ts';
export {
  didYouMean,
  hintFor,
  hintForInput,
  nearest,
  snakeCase,
  suggestion,
  suggestionOrList,
  withArticle,
} from './words.ts';
