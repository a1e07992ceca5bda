// profiles:
// May import

export { profilesModule } from './module.ts';
export { builtInProfiles, createProfile, listProfiles, profileId } from './profiles.ts';
