import { defineTexts } from '../../../admin-ui/shell/index.ts';
import de from './de.ts';
import en from './en.ts';

/** Texts of the pages for members and invitations, and of the email with an invitation. */
export const membersTexts = defineTexts('members', en, { de });
