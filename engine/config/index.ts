// Config: how environment variables are declared by the concerns that use them, and read once at start.
// May import errors.

export {
  type Environment,
  flag,
  instanceFolder,
  integer,
  misspelt,
  nearMisses,
  oneOf,
  packageName,
  path,
  projectFolder,
  readVariables,
  type Shown,
  shipped,
  shownVariables,
  text,
  type Values,
  type Variable,
  type Variables,
} from './variables.ts';
