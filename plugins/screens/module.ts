import type { Module } from '../../engine/modules/index.ts';
import { type ScreenServices, setupScreens } from './screens.ts';
import { screensTables } from './tables.ts';

/** The shell of the setup screens: modules add their pages. */
export const screensModule: Module<ScreenServices> = {
  name: 'screens',
  tables: screensTables,
  register: setupScreens,
};
