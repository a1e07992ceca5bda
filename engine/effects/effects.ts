// Effects: what else a write does in its own statement, one object each.
// May import sql.
import { audit } from './audit.ts';
import type { Effect } from './effect.ts';

/** Every effect by its name. Which of them an instance has, its settings say. */
export const effects = { audit } as const satisfies Readonly<Record<string, Effect>>;
