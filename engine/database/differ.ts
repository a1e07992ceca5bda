import type { MikroORM } from '@mikro-orm/core';
import { Type, t, UnknownType } from '@mikro-orm/core';
import {
  type Column,
  DatabaseSchema,
  DatabaseTable,
  type IndexDef,
  SchemaComparator,
  type SqlEntityManager,
  SqlSchemaGenerator,
} from '@mikro-orm/postgresql';
import { withExtensions } from './extensions.ts';

/** A part of a table, for example a column, index or trigger, as data. */
export type SchemaPart = Readonly<Record<string, unknown>>;

/** The sections of a table, as MikroORM names them. */
export const tableSections = ['columns', 'indexes', 'checks', 'triggers', 'foreignKeys'] as const;

/** A table as data: the parts of each section, by name. */
export type TableShape = {
  readonly [Section in (typeof tableSections)[number]]: Readonly<Record<string, SchemaPart>>;
};

/** Tables as data, by name. */
export type TableShapes = Readonly<Record<string, TableShape>>;

/** Compares two models by name. Parts with different names are different even if they are otherwise equal. */
class ExactComparator extends SchemaComparator {
  // MikroORM treats a removed and an added column (or index) of equal type as a rename, and would move values
  // from one field into another.
  override diffColumn(from: Column, to: Column, ...rest: [DatabaseTable, boolean?]): Set<string> {
    return from.name === to.name ? super.diffColumn(from, to, ...rest) : new Set(['name']);
  }

  override diffIndex(from: IndexDef, to: IndexDef): boolean {
    if (from.keyName !== to.keyName) return true;
    // Both expressions come from definitions rather than a database that normalizes them, so their texts are
    // comparable.
    if (from.expression !== undefined || to.expression !== undefined)
      return from.expression !== to.expression;
    return super.diffIndex(from, to);
  }
}

/** Generates the statements that migrate one model to another, without guessing renames. */
export class ExactSchemaGenerator extends SqlSchemaGenerator {
  static override register(orm: MikroORM): void {
    const create = () => new ExactSchemaGenerator(orm.em as SqlEntityManager);
    orm.config.registerExtension('@mikro-orm/schema-generator', create);
  }

  /** Returns the tables of the target model. */
  shapes(): TableShapes {
    const { tables } = JSON.parse(JSON.stringify(this.getTargetSchema())) as {
      tables: readonly (SchemaPart & { name: string })[];
    };
    return Object.fromEntries(tables.map((table) => [table.name, tableShape(table)]));
  }

  /** Returns the statements that migrate the tables in `previous` to the target model. */
  statementsFrom(previous: TableShapes): readonly string[] {
    const difference = new ExactComparator(this.platform).compare(
      this.#schemaOf(previous),
      this.getTargetSchema(),
    );
    const text = this.diffToSQL(difference, { wrap: false, safe: false, dropTables: true });
    return statementsOf(withExtensions(text));
  }

  #schemaOf(shapes: TableShapes): DatabaseSchema {
    const schema = new DatabaseSchema(this.platform, this.config.get('schema'));
    const list = <T>(parts: Readonly<Record<string, SchemaPart>>) => Object.values(parts) as unknown as T;
    const tables = Object.entries(shapes).map(([name, shape]) => {
      const table = new DatabaseTable(this.platform, name, 'public');
      table.setIndexes(list(shape.indexes));
      table.setChecks(list(shape.checks));
      table.setTriggers(list(shape.triggers));
      table.setForeignKeys({ ...shape.foreignKeys } as unknown as Parameters<typeof table.setForeignKeys>[0]);
      for (const column of Object.values(shape.columns)) {
        const type = t[String(column.mappedType) as keyof typeof t] ?? UnknownType;
        table.addColumn({ ...column, mappedType: Type.getType(type) } as unknown as Column);
      }
      return table;
    });
    schema.setTables(tables);
    schema.setNamespaces(new Set(['public']));
    return schema;
  }
}

/** Converts a table from MikroORM's representation, in which some sections are lists. */
export function tableShape(table: SchemaPart): TableShape {
  const shape = tableSections.map((section) => {
    const parts = table[section] as readonly SchemaPart[] | Readonly<Record<string, SchemaPart>> | undefined;
    if (!Array.isArray(parts)) return [section, parts ?? {}];
    const entries = (parts as readonly SchemaPart[]).map((part) => [String(part.keyName ?? part.name), part]);
    return [section, Object.fromEntries(entries)];
  });
  return Object.fromEntries(shape) as TableShape;
}

/** Splits a script into statements. */
function statementsOf(text: string): string[] {
  const statements: string[] = [];
  let current = '';
  for (const part of text.split(/;\n/)) {
    current += current === '' ? part : `;\n${part}`;
    // With an odd number of quotes so far, this semicolon is inside a string.
    if (current.split("'").length % 2 === 0) continue;
    const statement = current.trim();
    if (statement !== '') statements.push(statement.endsWith(';') ? statement : `${statement};`);
    current = '';
  }
  return statements;
}
