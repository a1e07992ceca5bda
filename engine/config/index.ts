// Config: declares environment variables, and reads them once at startup.
// May import errors.

export { maskCredentials } from './credentials.ts';
export {
  choiceVariable,
  type Environment,
  effectiveVariables,
  flagVariable,
  instanceFolder,
  integerVariable,
  misspelledNames,
  nearMisses,
  packageName,
  pathVariable,
  projectFolder,
  readVariables,
  settingsFileVariable,
  shippedFolder,
  textVariable,
  type Variable,
  type Variables,
  type VariableValues,
} from './variables.ts';
