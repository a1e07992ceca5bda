// Resources with scopes and field groups.
import type { Source } from '../../engine/yaml/load.ts';

/** Deals with the scopes `own` and `small`, and the fields `margin` and `cost` in the group `finance`. */
export const deals: Source = {
  file: 'resources/deals.yaml',
  text: `
singular: deal
description: Deals.
common: all
scopes:
  own: owner_id == me
  small: size < 10
fields:
  title: { type: string, description: Title. }
  size: { type: int64, description: Size. }
  margin: { type: int64, group: finance, description: Margin. }
  cost: { type: int64, group: finance, read_only: true, description: Cost. }
`,
};
