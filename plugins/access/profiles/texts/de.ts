import type { TranslationOf } from '../../../admin-ui/shell/index.ts';
import type en from './en.ts';

/** German texts of the pages for profiles. */
export default {
  profiles: 'Profile',
  profile: 'Profil',
  chooseAProfile: 'Profil auswählen',
  chooseProfile: 'Wählen Sie ein Profil aus.',
  missing: 'Dieses Profil existiert nicht.',
  grantsMore: 'Sie können nicht mehr Rechte vergeben, als Ihr eigenes Profil hat: {grants}',
} as const satisfies TranslationOf<typeof en>;
