import type { MikroORM } from '@mikro-orm/core';
import {
  type Column,
  type DatabaseSchema,
  type DatabaseTable,
  type IndexDef,
  SchemaComparator,
  type SqlEntityManager,
  SqlSchemaGenerator,
} from '@mikro-orm/postgresql';
import { withExtensions } from './extensions.ts';

/** Compares two models by names alone: an equal column with a different name is a different column. */
class ExactComparator extends SchemaComparator {
  // MikroORM treats a removed and an added column (or index) of equal type as a rename, and would move values
  // from one field into another.
  override diffColumn(from: Column, to: Column, ...rest: [DatabaseTable, boolean?]): Set<string> {
    return from.name === to.name ? super.diffColumn(from, to, ...rest) : new Set(['name']);
  }

  override diffIndex(from: IndexDef, to: IndexDef): boolean {
    if (from.keyName !== to.keyName) return true;
    // Both come from definitions, never from a database that normalizes them, so their texts can be compared.
    if (from.expression !== undefined || to.expression !== undefined)
      return from.expression !== to.expression;
    return super.diffIndex(from, to);
  }
}

/** Writes the statements between two models, without guessing renames. */
export class ExactSchemaGenerator extends SqlSchemaGenerator {
  static override register(orm: MikroORM): void {
    const make = () => new ExactSchemaGenerator(orm.em as SqlEntityManager);
    orm.config.registerExtension('@mikro-orm/schema-generator', make);
  }

  /** @param options `fromSchema` is the model of the last migration and must be given */
  override async getUpdateSchemaMigrationSQL(
    options: { readonly fromSchema?: DatabaseSchema } = {},
  ): Promise<{ up: string; down: string }> {
    const { fromSchema } = options;
    if (fromSchema === undefined) throw new Error('there is no snapshot to compare with');
    const difference = new ExactComparator(this.platform).compare(fromSchema, this.getTargetSchema());
    const up = this.diffToSQL(difference, { wrap: false, safe: false, dropTables: true });
    return { up: withExtensions(up), down: '' };
  }
}
