// Test support: parses /metrics as Prometheus does.

/** A sample. */
export interface Sample {
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
}

/** Returns the samples with this name, which can be part of a histogram. */
export const samplesOf = (text: string, name: string): Sample[] =>
  [...text.matchAll(new RegExp(`^${name}(?:\\{(.*)\\})? (\\S+)$`, 'gm'))].map(([, labels = '', value]) => ({
    labels: Object.fromEntries(
      [...labels.matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g)].map(([, label = '', text = '']) => [label, text]),
    ),
    value: Number(value),
  }));

export const sumOf = (samples: readonly Sample[]): number =>
  samples.reduce((sum, { value }) => sum + value, 0);

/** Returns every metric with its type and help text. */
export const familiesOf = (text: string) =>
  [...text.matchAll(/^# HELP (\w+) (.*)\n# TYPE \w+ (\w+)$/gm)].map(([, name = '', help, type]) => ({
    name,
    type,
    help,
  }));
