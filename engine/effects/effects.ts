import type { Variable, VariableValues } from '../config/index.ts';
import { changeLog } from './change-log.ts';
import type { Effect } from './effect.ts';
import { recordNotes } from './notes.ts';

/** All effects, keyed by the configuration key of their variable. */
export const effects = { audit: changeLog, notes: recordNotes } as const satisfies Readonly<
  Record<string, Effect>
>;

type EffectName = keyof typeof effects;

const effectList = Object.entries(effects) as unknown as readonly (readonly [EffectName, Effect])[];

/** The effects' environment variables, keyed by effect name. */
export const effectVariables = Object.fromEntries(
  effectList.map(([name, { variable }]) => [name, variable]),
) as {
  readonly [Name in EffectName]: Variable<boolean>;
};

/** Tables of all effects. */
export const effectTables = effectList.flatMap(([, { tables }]) => tables);

/** Returns the effects enabled by the configuration. */
export const enabledEffects = (config: VariableValues<typeof effectVariables>): readonly Effect[] =>
  effectList.flatMap(([name, effect]) => (config[name] ? [effect] : []));
