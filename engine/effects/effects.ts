import type { Variable, VariableValues } from '../config/index.ts';
import { changeLog } from './change-log.ts';
import type { Effect } from './effect.ts';

/** Every effect by its name, which is also the key of its variable. */
export const effects = { audit: changeLog } as const satisfies Readonly<Record<string, Effect>>;

type EffectName = keyof typeof effects;

const effectList = Object.entries(effects) as unknown as readonly (readonly [EffectName, Effect])[];

/** The environment variables of the effects, by their names. */
export const effectVariables = Object.fromEntries(
  effectList.map(([name, { variable }]) => [name, variable]),
) as {
  readonly [Name in EffectName]: Variable<boolean>;
};

/** The tables of the effects. */
export const effectTables = effectList.flatMap(([, { tables }]) => tables);

/** The effects that an instance has, as its variables say. */
export const enabledEffects = (config: VariableValues<typeof effectVariables>): readonly Effect[] =>
  effectList.flatMap(([name, effect]) => (config[name] ? [effect] : []));
