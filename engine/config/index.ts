// Config: how environment variables are declared by the concerns that use them, and read once at start.
// May import errors.

export {
  choiceVariable,
  type EffectiveVariable,
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
  shippedFolder,
  textVariable,
  type Variable,
  type Variables,
  type VariableValues,
} from './variables.ts';
