import { defineTexts } from '../../../admin-ui/shell/index.ts';
import de from './de.ts';
import en from './en.ts';

/** Texts of the pages that erase a person. */
export const erasureTexts = defineTexts('erasure', en, { de });
