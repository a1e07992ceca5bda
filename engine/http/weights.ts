/**
 * Parses a header such as `Accept` into names and weights. Names are in lower case and without parameters;
 * weights are between 0 and 1.
 */
export const parseWeights = (header: string): ReadonlyMap<string, number> =>
  new Map(
    header
      .toLowerCase()
      .split(',')
      .map((element) => {
        const [name = '', ...parameters] = element.split(';').map((part) => part.trim());
        const weight = parameters.find((parameter) => parameter.startsWith('q='));
        return [name, weight === undefined ? 1 : Number(weight.slice(2))];
      }),
  );
