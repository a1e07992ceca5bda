// Config: how environment variables are declared by the concerns that use them, and read once at start.
// May import errors.

export {
  type Environment,
  flag,
  instanceFolder,
  integer,
  oneOf,
  packageName,
  path,
  projectFolder,
  readVariables,
  shipped,
  text,
  type Values,
  type Variable,
  type Variables,
} from './variables.ts';
