/** Returns a form's text without surrounding spaces, or undefined if it is blank. */
export const trimmedText = (text: string): string | undefined =>
  text.trim() === '' ? undefined : text.trim();
