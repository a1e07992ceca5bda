import type { EntitySchema } from '@mikro-orm/core';
import type { Variables, VariableValues } from '../engine/config/index.ts';
import type { JsonSchema } from '../engine/fields/index.ts';
import type { Module } from '../engine/modules/index.ts';
import type { ModuleCode } from '../engine/records/index.ts';
import { defineTable, type TableRows } from '../engine/tables/index.ts';
import type { ModuleChannel } from '../webhooks/channels/index.ts';
import type { RecordAccess } from './module-records.ts';
import type { Config, DoctorTarget, Instance, Services } from './services.ts';

/** The values that a module has declared, as passed to its functions. */
export interface OwnValues<V extends Variables, Section> {
  /** Values of the module's environment variables. */
  readonly variables: VariableValues<V>;
  /** Returns the module's current section in config.yaml. Do not keep it, because the file can change. */
  readonly moduleSettings: () => Section;
}

/** What a module's functions receive in addition, except hooks, actions and channels. */
interface ModuleAccess<V extends Variables, Section> extends OwnValues<V, Section> {
  readonly records: RecordAccess;
}

/** A running service, as passed to a module. */
export type ModuleServices<V extends Variables = Variables, Section = unknown> = Services &
  ModuleAccess<V, Section>;

/** An open instance, as passed to a module's commands. */
export type ModuleInstance<V extends Variables = Variables, Section = unknown> = Instance &
  ModuleAccess<V, Section>;

/**
 * A module for {@link defineModule}.
 * @typeParam V the module's environment variables
 * @typeParam Section the module's settings
 */
export interface ModuleDefinition<V extends Variables = Variables, Section = unknown>
  extends Omit<
      Module<ModuleServices<V, Section>, ModuleInstance<V, Section>, DoctorTarget, Config>,
      'variables' | 'settings' | 'hooks' | 'actions'
    >,
    Pick<ModuleCode<OwnValues<V, Section>>, 'hooks' | 'actions'> {
  /** Environment variables, keyed by the names of their values in `variables`. */
  readonly variables?: V;
  /**
   * Rules for the module's section in config.yaml: a JSON Schema, or a function that receives the section (an empty object if it is
   * missing) and returns the settings, or throws an error if the section is invalid.
   */
  readonly settings?: JsonSchema | ((section: unknown) => Section);
  /** Channels, keyed by their name in URLs: lower case, with hyphens between words. */
  readonly channels?: Readonly<Record<string, ModuleChannel<OwnValues<V, Section>>>>;
}

type TableArguments = Parameters<typeof defineTable>;

/**
 * Declares a module's table. Rows of organizations have the column `tenant()`, which is the first column of the primary key.
 * @param name `crm_<module>` or `crm_<module>_<name>`, with "_" for "-"
 * @param keys unique keys and indexes
 */
export const defineModuleTable = (
  name: string,
  properties: TableArguments[1],
  keys: Pick<NonNullable<TableArguments[2]>, 'uniques' | 'indexes'> = {},
): EntitySchema => defineTable(name as keyof TableRows, properties, keys);

/** Key of the definition in a {@link DefinedModule}. Copies of this package in one process share it. */
const definitionKey = Symbol.for('crm-engine.module');

/** A module for `modules` in config.yaml, returned by {@link defineModule}. */
export interface DefinedModule {
  readonly name: string;
}

/** Declares a module of an instance. A file in `modules` of config.yaml exports it as its default. */
export const defineModule = <
  V extends Variables = Record<never, never>,
  Section = Readonly<Record<string, unknown>>,
>(
  module: ModuleDefinition<V, Section>,
): DefinedModule => Object.freeze({ name: module.name, [definitionKey]: module });

/** Returns the definition of a value returned by {@link defineModule}, or undefined for other values. It is not checked. */
export const definitionOf = (value: unknown): ModuleDefinition | undefined =>
  typeof value === 'object' && value !== null && definitionKey in value
    ? (value[definitionKey] as ModuleDefinition)
    : undefined;
