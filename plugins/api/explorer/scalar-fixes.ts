/**
 * Accessibility fixes for Scalar's page, each with a selector, an attribute and a value. A null value removes the
 * attribute. test/browser/explorer.test.ts fails if a fix is missing.
 */
const fixes: readonly (readonly [selector: string, attribute: string, value: string | null])[] = [
  ['button[class*="copy-button"]:not([aria-label])', 'aria-label', 'Copy'],
  ['button[class*="copy-button"][aria-controls]', 'aria-controls', null],
  ['button[aria-haspopup="menu"]:not([title])', 'title', 'Values'],
  ['button[role="none"]', 'role', null],
  ['[role="combobox"]:not([aria-expanded])', 'aria-expanded', 'false'],
  ['.cm-content:not([aria-label])', 'aria-label', 'Body'],
  ['.cm-scroller[tabindex="-1"]', 'tabindex', '0'],
];

/** A script that applies the fixes whenever Scalar changes the page. */
export const scalarFixesScript = `
const fixes = ${JSON.stringify(fixes)};
new MutationObserver(() => {
  for (const [selector, attribute, value] of fixes)
    for (const element of document.querySelectorAll(selector))
      if (value === null) element.removeAttribute(attribute);
      else element.setAttribute(attribute, value);
}).observe(document, { childList: true, subtree: true });
`;
