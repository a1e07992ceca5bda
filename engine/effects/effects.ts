import { audit } from './audit.ts';
import type { Effect } from './effect.ts';

/** Every effect by its name. The variables of the instance say which of them it uses. */
export const effects = { audit } as const satisfies Readonly<Record<string, Effect>>;
