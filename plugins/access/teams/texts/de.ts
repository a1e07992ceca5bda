import type { TranslationOf } from '../../../admin-ui/shell/index.ts';
import type en from './en.ts';

/** German texts of the pages for teams. */
export default {
  teams: 'Teams',
  membersOfTeams: 'Mitglieder von Teams',
} as const satisfies TranslationOf<typeof en>;
