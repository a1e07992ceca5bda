/**
 * Patterns that match a user agent to the name of its program. The order matters, because some user agents also
 * contain the names of other programs.
 */
const programs: readonly (readonly [pattern: RegExp, name: string])[] = [
  [/\bEdg(?:e|A|iOS)?\//, 'Edge'],
  [/\bOPR\//, 'Opera'],
  [/\b(?:Firefox|FxiOS)\//, 'Firefox'],
  [/\b(?:HeadlessChrome|Chrome|CriOS)\//, 'Chrome'],
  [/\bSafari\//, 'Safari'],
  [/^curl\//, 'curl'],
  [/^(?:node|undici)\b/, 'Node.js'],
];
const systems: readonly (readonly [pattern: RegExp, name: string])[] = [
  [/iPhone/, 'iPhone'],
  [/iPad/, 'iPad'],
  [/Android/, 'Android'],
  [/Windows/, 'Windows'],
  [/Mac OS X|Macintosh/, 'macOS'],
  [/CrOS/, 'ChromeOS'],
  [/Linux/, 'Linux'],
];

/** Returns a recognizable name for a browser or client, for example "Firefox on Windows". */
export function deviceName(userAgent: string): string {
  const find = (patterns: typeof programs) => patterns.find(([pattern]) => pattern.test(userAgent))?.[1];
  const [program, system] = [find(programs), find(systems)];
  if (program === undefined)
    return userAgent === '' ? 'unknown' : (userAgent.split(/[\s/]/, 1)[0] ?? '').slice(0, 40);
  return system === undefined ? program : `${program} on ${system}`;
}
