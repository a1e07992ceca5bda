import type { EntitySchema } from '@mikro-orm/core';
import type { Generated } from 'kysely';
import { quote } from '../../engine/sql/index.ts';
import {
  defineTable,
  identity,
  integerColumn,
  now,
  type TableRows,
  tenant,
  tenantLink,
  textColumn,
  timestampColumn,
} from '../../engine/tables/index.ts';

/** Columns in every queue table, except for the reference to the owner. */
export interface QueueRow {
  organization_id: string;
  id: Generated<string>;
  /** The event's ID, unique per owner. */
  event_id: string;
  /** `waiting`, `done` or `dead`, or another status if the row is part of another item. */
  status: Generated<string>;
  attempts: Generated<number>;
  next_at: Generated<Date>;
  /** English sentence that explains the last failure, or an empty string. */
  error: Generated<string>;
  /** The latest attempts as lines of JSON, latest first. */
  attempt_log: Generated<string>;
  received_at: Generated<Date>;
  done_at: Date | null;
}

/**
 * Defines a queue table.
 * @param owner the name of the reference to the owner, and the owner table
 * @param columns additional columns
 */
export function queueTable(
  name: keyof TableRows,
  owner: { readonly name: string; readonly table: keyof TableRows },
  columns: Record<string, Record<string, unknown>>,
  keys: Parameters<typeof defineTable>[2] = {},
): EntitySchema {
  const ownerColumn = `${owner.name}_id`;
  return defineTable(
    name,
    {
      ...tenant(),
      id: identity,
      ...tenantLink(name, owner.name, owner.table, { ownColumns: [ownerColumn], deleteRule: 'cascade' }),
      event_id: textColumn,
      ...columns,
      status: { ...textColumn, defaultRaw: "'waiting'" },
      attempts: { ...integerColumn, defaultRaw: '0' },
      next_at: now,
      error: { ...textColumn, defaultRaw: "''" },
      attempt_log: { ...textColumn, defaultRaw: "''" },
      received_at: now,
      done_at: { ...timestampColumn, nullable: true },
    },
    {
      ...keys,
      uniques: [{ name: `${name}_event`, properties: ['organization_id_link', ownerColumn, 'event_id'] }],
      indexes: [
        // Finds due items by organization and owner (claim.ts).
        {
          name: `${name}_due`,
          keys: ['"organization_id"', quote(ownerColumn), '"next_at"'],
          where: `"status" = 'waiting'`,
        },
        // Lists an owner's items, newest first.
        {
          name: `${name}_owner`,
          keys: ['"organization_id"', quote(ownerColumn), '"id"'],
        },
        // Finds dead items among many finished items.
        {
          name: `${name}_dead`,
          keys: ['"organization_id"', '"id"'],
          where: `"status" = 'dead'`,
        },
        // Finds items whose retention period has ended.
        {
          name: `${name}_ended`,
          keys: ['"status"', '"done_at"'],
          where: `"status" <> 'waiting'`,
        },
        ...(keys.indexes ?? []),
      ],
      // A claim iterates over all organizations.
      placement: 'coordinator',
    },
  );
}
