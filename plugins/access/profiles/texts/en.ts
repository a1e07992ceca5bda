import type { Catalogue } from '../../../admin-ui/shell/index.ts';

/** English texts of the pages for profiles. */
export default {
  profiles: 'Profiles',
  profile: 'Profile',
  chooseAProfile: 'Choose a profile',
  chooseProfile: 'choose a profile',
  missing: 'this profile does not exist',
  grantsMore: 'you cannot grant more than your own profile grants: {grants}',
} as const satisfies Catalogue;
