// Profiles: profiles: what their holders may do.
// May import engine, screens.

export { chosenProfile, profileChoice } from './choice.ts';
export { profilesModule } from './module.ts';
export { builtInProfiles, createProfile, listProfiles, profileId } from './profiles.ts';
