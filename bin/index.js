// The package's main export, which modules import: compiled in a packed package, and source in a clone.
import { existsSync } from 'node:fs';

const [compiled, source] = ['../dist/app/index.js', '../app/index.ts'].map(
  (path) => new URL(path, import.meta.url),
);

export const {
  apiPrefix,
  authorize,
  bigintColumn,
  booleanColumn,
  choiceVariable,
  createTestInstance,
  defineModule,
  defineModuleTable,
  EntitySchema,
  errors,
  flagVariable,
  formatTable,
  HttpError,
  identity,
  inOrganization,
  integerColumn,
  integerVariable,
  jsonResult,
  now,
  organizationOption,
  Rejection,
  readBody,
  section,
  sql,
  tablesOf,
  tenant,
  textColumn,
  textVariable,
  timestampColumn,
  transaction,
  UserError,
} = await import((existsSync(compiled) ? compiled : source).href);
