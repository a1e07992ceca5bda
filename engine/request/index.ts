// Request: what a request asks -> plan (data) -> statement (pure) -> execute (the database) -> reply.
// May import errors, fields, definition, compile, database.
export { readBody } from './body.ts';
export { execute, executeWrite } from './execute.ts';
export {
  type By,
  createPlan,
  deletePlan,
  type Input,
  type ListPlan,
  listPlan,
  type Plan,
  type Principal,
  type Query,
  readPlan,
  replacePlan,
} from './plan.ts';
export { deletedReply, json, listReply, recordReply } from './reply.ts';
export {
  createStatement,
  deleteStatement,
  findStatement,
  listStatement,
  patchStatement,
  readStatement,
  replaceStatement,
} from './statement.ts';
