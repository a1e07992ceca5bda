import { defineTexts } from '../../../admin-ui/shell/index.ts';
import de from './de.ts';
import en from './en.ts';

/** Texts of the API explorer. The descriptions in the OpenAPI document are in English. */
export const explorerTexts = defineTexts('explorer', en, { de });
