// Test support: searches for personal data and erasures, both of which run in the background.
import assert from 'node:assert/strict';
import { problemOf, type Visitor } from './forms.ts';
import type { Answer } from './instance.ts';
import { until } from './process.ts';

/** Returns the page of a finished search or erasure. */
export async function settled(browser: Visitor, sent: Answer): Promise<Answer> {
  assert.equal(sent.status, 303, problemOf(sent));
  const location = sent.headers.get('location') ?? assert.fail();
  let answer = await browser.get(location);
  await until(async () => {
    if (answer.headers.get('refresh') === null) return true;
    answer = await browser.get(location);
    return false;
  }, 'finish the search or erasure');
  return answer;
}
