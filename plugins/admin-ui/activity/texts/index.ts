import { defineTexts } from '../../shell/index.ts';
import de from './de.ts';
import en from './en.ts';

/** Texts of the activity page. */
export const activityTexts = defineTexts('activity', en, { de });
