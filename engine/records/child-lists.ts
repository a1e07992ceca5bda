import { type Field, isKeptIfAbsent, refersToMany } from '../fields/index.ts';
import { type ListOrder, orderKeys, type Relation } from '../query/index.ts';
import { cell, column, type Placeholder, type Prepared, prepare, record, rowDecoder } from '../sql/index.ts';
import { type Aliases, aliasesOf } from './aliases.ts';
import { type Body, type BodyRules, bodyRules, writableLists } from './body.ts';
import { createBatch } from './create.ts';
import { compileBeforeHooks, hookedContext, type RunBefore, withHooks, writableValues } from './hooks.ts';
import type { OperationContext, OperationPlan } from './operation.ts';
import { patchBatch } from './patch.ts';
import { removeBatch } from './remove.ts';
import { limitSql, organizationOf, ownRowsSql, visibleLimitSql, visibleSql } from './rows.ts';
import { tableOf } from './statements.ts';
import { violations } from './violations.ts';

/** A plan for the children of a record. */
interface OfParent extends OperationPlan {
  /** ID of the record as a decimal string. */
  readonly parent: string;
}

/** A plan for children that a request has written. */
interface OfWritten extends OperationPlan {
  readonly ids: readonly string[];
}

/** A writable list of children, compiled for callers with the same rights. */
export interface ChildList {
  /** Name in bodies and in `expand`. */
  readonly name: string;
  /** The resource to which the children belong. */
  readonly child: OperationContext;
  /** The children's reference to the record. */
  readonly reference: Field;
  /** The order of the list; undefined for the children's default order. */
  readonly order: ListOrder | undefined;
  /** Rules for the children in bodies, in which the server sets the reference. */
  readonly rules: BodyRules;
  /** Translates former field names of the children. */
  readonly aliases: Aliases | undefined;
  /** Returns a body that replaces all fields, as PUT does, if it is applied as PATCH. */
  readonly replacement: (body: Body) => Body;
  /** The operations that write the children. */
  readonly operations: {
    readonly create: ReturnType<typeof createBatch.compile>;
    readonly patch: ReturnType<typeof patchBatch.compile>;
    readonly remove: ReturnType<typeof removeBatch.compile>;
  };
  /** The children that these operations write. */
  readonly items: OperationContext['items'];
  /** Returns the values of a child's body that the caller can write. Needed only if hooks can write more. */
  readonly values: (body: Body) => Body;
  /** Runs the hooks before children are created or updated. */
  readonly beforeHooks: RunBefore;
  /** Selects a record's children, with the caller's rights; see {@link decodeExisting}. */
  readonly existing: Prepared<OfParent>;
  /** Locks the children and selects them as {@link existing} does. */
  readonly locked: Prepared<OfParent>;
  /** Selects children that a request has written, as a JSON array. */
  readonly written: Prepared<OfWritten>;
  /** Selects all children of a record that the caller can list, as a JSON array. */
  readonly listed: Prepared<OfParent>;
}

/** Maximum number of children that a request can write, or delete because they are not in the body. */
export const maxChildren = 1000;

/** Decodes a child's ID, and whether the caller can update and delete it. */
export const decodeExisting = rowDecoder({
  id: cell.text,
  isUpdatable: cell.flag,
  isDeletable: cell.flag,
});

/** Compiles the writable lists of a resource's children. */
export const compileChildLists = (context: OperationContext): readonly ChildList[] =>
  context.definition.expansion
    .filter(({ isWritable }) => isWritable === true)
    .map((relation) => compileChildList(context, relation));

function compileChildList(
  context: OperationContext,
  { name, reference, to = '', order }: Relation,
): ChildList {
  const child = context.contextOf(to);
  const { definition, stored } = child;
  const violation = violations(child);
  const written = hookedContext(child);
  const fields = definition.fields.map((field) =>
    field.name === reference.name ? { ...field, readOnly: true } : field,
  );
  const replaced = fields.filter((field) => !field.readOnly && !isKeptIfAbsent(field));
  const lists = new Set(fields.filter(refersToMany).map((field) => field.name));
  const ofParent = ($: Placeholder<OfParent>) =>
    `${column(reference)} = ${$(({ parent }) => parent)}::bigint`;
  const select = (where: string, limit: string, joins: string) =>
    `select coalesce(array_to_json(array_agg(row_to_json(_r)))::text, '[]') from (select ${child.projection.columns} from ${tableOf(child)} ${record}${joins} where ${where} order by ${orderKeys([order ?? definition.sort]).join(', ')}${limit}) _r`;
  const existing = ($: Placeholder<OfParent>) => {
    organizationOf($);
    const updatable = visibleLimitSql(child, 'update', $);
    const deletable = visibleLimitSql(child, 'delete', $);
    // A caller that cannot read any child still updates and deletes children.
    const isReadable = (child.rows?.read ?? []).every((limit) => limit.length > 0);
    const visible = isReadable ? limitSql(child, 'read', $) : ` and (true${updatable} or true${deletable})`;
    return `select ${record}."id"::text, (true${updatable})::text, (true${deletable})::text from ${tableOf(child)} ${record} where ${ownRowsSql($)} and ${ofParent($)}${visible} order by ${record}."id" limit ${2 * maxChildren + 1}`;
  };
  return {
    name,
    child,
    reference,
    order,
    rules: bodyRules(fields, stored.fields, false, writableLists(definition)),
    aliases: aliasesOf(definition),
    replacement: (body) => ({
      ...Object.fromEntries(replaced.map((field) => [field.name, null])),
      // Null removes an owner, but stands for an absent list.
      ...Object.fromEntries(
        Object.entries(body).filter(
          ([field, value]) => value !== undefined && (value !== null || !lists.has(field)),
        ),
      ),
    }),
    operations: {
      create: { ...createBatch.compile({ ...written, parentReference: reference.name }), violation },
      patch: { ...patchBatch.compile(written), violation },
      remove: withHooks(child, 'removeBatch', (own) => ({ ...removeBatch.compile(own), violation })),
    },
    items: written.items,
    values: written === child ? (body) => body : writableValues(child),
    beforeHooks: compileBeforeHooks(child),
    existing: prepare<OfParent>('', 'batch', existing),
    locked: prepare<OfParent>('', 'batch', ($) => `${existing($)} for no key update of ${record}`),
    written: prepare<OfWritten>('', 'batch', ($) =>
      select(
        `${ownRowsSql($)} and ${record}."id" = any(${$(({ ids }) => ids)}::bigint[])`,
        '',
        child.projection.joins($),
      ),
    ),
    listed: prepare<OfParent>('', 'batch', ($) =>
      select(
        `${visibleSql(child, 'list', $)} and ${ofParent($)}`,
        ` limit ${maxChildren}`,
        child.projection.joins($),
      ),
    ),
  };
}
