// Expressions: checks conditions and formulas in definitions, and renders them as SQL.
// May import errors, fields, yaml, sql.

export { compileExpression, type ExpressionOptions } from './compile.ts';
export {
  copiedField,
  type Expression,
  type ExpressionType,
  equality,
  nullTestedFields,
} from './expression.ts';
export { conditionSql, type ExpressionColumns, expressionSql, noCaller } from './render.ts';
