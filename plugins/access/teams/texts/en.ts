import type { Catalogue } from '../../../admin-ui/shell/index.ts';

/** English texts of the pages for teams. */
export default {
  teams: 'Teams',
  membersOfTeams: 'Members of teams',
} as const satisfies Catalogue;
