/** Content-Type of every JSON response. */
export const json = 'application/json; charset=utf-8';
