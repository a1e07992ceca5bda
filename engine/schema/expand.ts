import { afterRename, type Change } from './changes/change.ts';
import { kindOf } from './changes/index.ts';
import type { Expansion } from './changes/kind.ts';
import type { LiveNode } from './nodes.ts';
import type { OlderModels } from './older-models.ts';

/**
 * Splits a migration into changes that are safe for older nodes and changes that must wait until these nodes
 * have stopped.
 * @param nodes the running nodes that do not know the migration (at least one)
 */
export function expand(
  changes: readonly Change[],
  nodes: readonly LiveNode[],
  models: OlderModels,
): Expansion {
  return changes.reduce<Expansion>(
    ({ now, contract }, change) => {
      const next = kindOf(change).compatibility?.(change, { nodes, models, changes }) ?? {
        now: [change],
        contract: [],
      };
      return {
        now: [...now, ...next.now],
        contract: [...contract.map((earlier) => afterRename(earlier, change)), ...next.contract],
      };
    },
    { now: [], contract: [] },
  );
}
