import { defineTexts } from '../../../admin-ui/shell/index.ts';
import de from './de.ts';
import en from './en.ts';

/** Texts of the page for agents. */
export const agentsTexts = defineTexts('mcp', en, { de });
